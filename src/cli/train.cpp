#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "checkpoint/model_file.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/log.h"
#include "cli/run_files.h"
#include "cli/summary.h"
#include "generate/generate.h"
#include "model/gpt.h"
#include "plan/plan.h"
#include "run/cpu.h"
#include "run/executor.h"
#include "train/console.h"
#include "train/metrics.h"
#include "train/session.h"

namespace fourfold::cli {
namespace {

train::RunFacts facts_of(const Job& job) {
  const plan::Batching& b = job.plan.batching;
  train::RunFacts facts;
  facts.tokens_per_step = b.global_batch * b.length;
  facts.model_flops_per_step =
      model::model_flops_per_step(job.config.model, b.global_batch, b.length);
  facts.memory_bytes = job.bundle.persistent_bytes + job.bundle.transient_bytes;
  return facts;
}

/// Refuses a directory that holds an earlier run, and writes what describes this one.
void open_run_directory(const TrainArguments& arguments, const Job& job,
                        const data::Dataset& dataset) {
  const std::string& dir = job.config.dir;
  if (!arguments.overwrite && file_exists(join_path(dir, RunFiles::metrics)))
    throw UserError(
        ExitCode::output_in_use,
        format("{} holds an earlier run; choose another with --set run.dir=... or pass --overwrite",
               dir));
  make_directories(dir);
  write_file_atomic(join_path(dir, RunFiles::config), config::resolved_yaml(job.config));
  write_file_atomic(join_path(dir, RunFiles::tokenizer), dataset.tokenizer().to_text() + "\n");
  write_file_atomic(join_path(dir, RunFiles::plan),
                    summary(job) + "\n" + plan::to_text(job.plan, job.graphs));
}

void save_weights(const Job& job, run::Executor& executor, Log& log) {
  const std::string path = join_path(job.config.dir, RunFiles::weights);
  checkpoint::save_model(path, job.bundle.at("train"),
                         [&](const program::Buffer& b) { return executor.bytes(b); });
  log.info(format("weights: {}", path));
}

void show_sample(const Job& job, const data::Dataset& dataset, run::Executor& executor) {
  const generate::SampleSpec& spec = job.config.sample;
  if (spec.tokens == 0) return;
  std::printf("\nsample (%lld tokens, temperature %g):\n%s", static_cast<long long>(spec.tokens),
              spec.temperature, spec.prompt.c_str());
  const std::string text =
      generate::generate(spec, dataset.tokenizer(), executor, [](std::string_view piece) {
        std::fwrite(piece.data(), 1, piece.size(), stdout);
        std::fflush(stdout);
      });
  std::printf("\n\ncontinue it: fourfold generate %s --prompt \"...\"\n", job.config.dir.c_str());
  write_file_atomic(join_path(job.config.dir, RunFiles::sample), spec.prompt + text + "\n");
}

}  // namespace

void train(const TrainArguments& arguments) {
  config::Config config = load_config(arguments.config);
  const data::Dataset dataset = load_data(config);
  if (config.sample.tokens > 0) dataset.tokenizer().encode(config.sample.prompt, "sample.prompt");
  const Job job = make_job(std::move(config));
  check_memory(job.bundle);
  if (!arguments.dry_run) open_run_directory(arguments, job, dataset);

  Log log;
  if (!arguments.dry_run) log.keep(join_path(job.config.dir, RunFiles::log));
  log.info(format("{}{:<11} {} training tokens, {} for validation\n", summary(job), "data",
                  grouped(dataset.train_tokens().size()),
                  grouped(dataset.validation_tokens().size())));
  if (arguments.dry_run) {
    log.info("dry run: nothing was written");
    return;
  }

  run::CpuBackend backend({.threads = job.target.threads});
  run::Executor executor(job.bundle, backend);
  train::Console console(log.stream(), job.config.train);
  train::MetricsFile metrics(join_path(job.config.dir, RunFiles::metrics),
                             train::MetricsFile::Existing::replace,
                             [&](const std::string& text) { log.warn(text); });
  train::Observer* const observers[] = {&console, &metrics};
  train::train(job.config.train, facts_of(job), executor, dataset, observers);
  save_weights(job, executor, log);
  show_sample(job, dataset, executor);
}

}  // namespace fourfold::cli
