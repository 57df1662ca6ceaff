#include "generate/generate.h"

#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "checkpoint/model_file.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/run_files.h"
#include "data/tokenizer.h"
#include "run/cpu.h"
#include "run/executor.h"

namespace fourfold::cli {
namespace {

generate::SampleSpec sample_spec(const GenerateArguments& arguments, const config::Config& config) {
  generate::SampleSpec spec = config.sample;
  if (arguments.prompt) spec.prompt = *arguments.prompt;
  if (arguments.tokens) spec.tokens = *arguments.tokens;
  if (arguments.temperature) spec.temperature = *arguments.temperature;
  if (arguments.top_k) spec.top_k = *arguments.top_k;
  if (arguments.seed) spec.seed = *arguments.seed;
  return spec;
}

config::Config config_of_run(const GenerateArguments& arguments) {
  const std::string path = join_path(arguments.run_dir, RunFiles::config);
  if (!file_exists(path))
    throw UserError(ExitCode::no_checkpoint,
                    format("{} is no run directory: it has no {}; give the run.dir of a "
                           "finished `fourfold train`",
                           arguments.run_dir, RunFiles::config));
  config::Config config = load_config({{path}, {}});
  config.threads = arguments.threads;
  return config;
}

}  // namespace

void generate(const GenerateArguments& arguments) {
  config::Config config = config_of_run(arguments);
  const std::string tokenizer_path = join_path(arguments.run_dir, RunFiles::tokenizer);
  const auto tokenizer =
      data::tokenizer_from_text(read_file(tokenizer_path, ExitCode::no_checkpoint), tokenizer_path);
  const Job job = make_job(std::move(config), Graphs::generation);
  check_memory(job.bundle);

  run::CpuBackend backend({.threads = job.target.threads});
  run::Executor executor(job.bundle, backend);
  checkpoint::load_model(join_path(arguments.run_dir, RunFiles::weights), job.bundle.at("prefill"),
                         [&](const program::Buffer& b) { return executor.bytes(b); });
  const generate::SampleSpec spec = sample_spec(arguments, job.config);
  std::fputs(spec.prompt.c_str(), stdout);
  generate::generate(spec, *tokenizer, executor, [](std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  });
  std::putchar('\n');
}

}  // namespace fourfold::cli
