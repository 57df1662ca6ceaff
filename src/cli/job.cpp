#include "cli/job.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "compile/compile.h"
#include "kernels/cpu/target.h"
#include "model/gpt.h"

namespace fourfold::cli {
namespace {

machine::Target target_of(const config::Config& config) {
  if (config.kernels == "reference") return kernels::cpu::reference_target();
  return kernels::cpu::target(resolve_threads(config.threads));
}

/// The number behind `key` in a file of lines "key: 123 kB"; none when there is no such line.
std::optional<std::int64_t> read_kib(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::int64_t value = 0;
    if (word == key && file >> value) return value;
  }
  return std::nullopt;
}

/// What this process may still take: free memory, or less where its control group has a limit.
std::int64_t available_memory_bytes() {
  std::int64_t available = std::numeric_limits<std::int64_t>::max();
  if (const auto kib = read_kib("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  std::ifstream limit("/sys/fs/cgroup/memory.max"), used("/sys/fs/cgroup/memory.current");
  std::int64_t limit_bytes = 0, used_bytes = 0;
  if (limit >> limit_bytes && used >> used_bytes)
    available = std::min(available, limit_bytes - used_bytes);
  return available;
}

}  // namespace

config::Config load_config(const ConfigSource& source) {
  return config::load(source.files, source.sets);
}

Job make_job(config::Config config, Graphs graphs) {
  const auto batching = plan::solve_batching(config.plan);
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&batching))
    throw UserError(ExitCode::does_not_fit, plan::to_text(*infeasible));
  const auto& b = std::get<plan::Batching>(batching);

  Job job;
  job.config = std::move(config);
  job.graphs = model::build_gpt(job.config.model, {b.samples(), b.length, b.global_batch},
                                job.config.optimizer);
  if (graphs == Graphs::generation)
    std::erase_if(job.graphs.graphs,
                  [](const auto& g) { return g.name != "prefill" && g.name != "decode"; });
  auto plan = plan::make_plan(job.graphs, job.config.plan);
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&plan))
    throw UserError(ExitCode::does_not_fit, plan::to_text(*infeasible));
  job.plan = std::get<plan::Plan>(std::move(plan));
  job.target = target_of(job.config);
  job.bundle = compile::compile(job.graphs, job.plan, job.target);
  return job;
}

data::Dataset load_data(config::Config& config) {
  data::Dataset dataset(config.data);
  if (config.model.vocab_size == 0) config.model.vocab_size = dataset.vocab_size();
  if (config.model.vocab_size < dataset.vocab_size())
    throw UserError(ExitCode::bad_config, format("model.vocab_size = {} is smaller than the {} "
                                                 "tokens of the data ({}); leave it out or set "
                                                 "model.vocab_size = {}",
                                                 config.model.vocab_size, dataset.vocab_size(),
                                                 config.data.path, dataset.vocab_size()));
  return dataset;
}

void resolve_vocabulary(config::Config& config) {
  if (config.model.vocab_size == 0) load_data(config);
}

int available_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return 1;
  return std::max(1, CPU_COUNT(&mask));
}

int resolve_threads(int threads) {
  return threads > 0 ? threads : available_cores();
}

void check_memory(const program::Bundle& bundle) {
  const std::int64_t needed = bundle.persistent_bytes + bundle.transient_bytes,
                     available = available_memory_bytes();
  if (needed <= available) return;
  throw UserError(
      ExitCode::does_not_fit,
      format(
          "the run needs {} of memory ({} persistent, {} transient) and {} are available; reduce "
          "train.micro_batch_size, set memory.activation_checkpointing = full, or choose a smaller "
          "model",
          format_bytes(needed), format_bytes(bundle.persistent_bytes),
          format_bytes(bundle.transient_bytes), format_bytes(available)));
}

}  // namespace fourfold::cli
