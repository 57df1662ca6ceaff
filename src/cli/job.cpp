#include "cli/job.h"

#include <sched.h>

#include <algorithm>
#include <variant>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "checkpoint/state.h"
#include "cli/cuda_run.h"
#include "cli/kernel_table.h"
#include "cli/nearest_grids.h"
#include "compile/compile.h"
#include "kernels/cpu/target.h"
#include "model/gpt.h"
#include "program/bind.h"

namespace fourfold::cli {
namespace {

/// Plans of a type that no kernel here computes in have no kernels and no scratch.
machine::Target target_without_kernels() {
  machine::Choice any;
  any.op = "*";
  any.implementation = "none";
  return {.backend = "none",
          .threads = 1,
          .choices = {any},
          .workspace_bytes = [](const std::string&, const op::Op&, op::Shapes,
                                DType) -> std::int64_t { return 0; }};
}

/// Rank threads share the cores of this process; ranks that are processes have cores of their own
/// and say so in run.threads.
machine::Target target_of(const config::Config& config, const std::string& kernel_table,
                          std::int64_t ranks, Device device) {
  if (device == Device::cuda)
    return *cuda_target(config.kernels == "reference" ? CudaKernels::own : CudaKernels::fastest,
                        measured_device_choices(kernel_table, config.kernel_table));
  if (config.kernels == "reference") return kernels::cpu::reference_target();
  if (config.plan.compute == DType::bf16) return target_without_kernels();
  const int cores = resolve_threads(config.threads);
  const auto share = static_cast<int>(std::min<std::int64_t>(ranks, cores));
  const int threads = config.threads > 0 ? config.threads : cores / share;
  return kernels::cpu::target(threads,
                              measured_choices(kernel_table, config.kernel_table, threads));
}

/// "parallel.tensor.x is set at a.yaml:5", a line a key that the user has set.
std::string places_of(const std::vector<std::string>& keys, const config::Origins& origins) {
  std::string text;
  for (const std::string& key : keys) {
    const config::Origin* origin = origins.find(key);
    if (origin == nullptr || origin->place == "default" || origin->place == "derived") continue;
    const bool is_option = origin->place.starts_with("--");
    text += format("\n      {} is set {} {}", key, is_option ? "by" : "at", origin->place);
  }
  return text;
}

/// One line a problem and the places of its keys; several are marked each.
std::string in_words(const plan::Infeasible& infeasible, const config::Origins& origins) {
  const bool is_alone = infeasible.problems.size() < 2;
  std::string text;
  for (const auto& problem : infeasible.problems)
    text += (text.empty() ? "" : "\n") + std::string(is_alone ? "" : "error: ") + problem.message +
            places_of(problem.keys, origins);
  return text;
}

/// `wanted` is the configuration before anything of it was settled.
template <class T>
T feasible(std::variant<T, plan::Infeasible> result, const config::Config& wanted,
           std::optional<std::int64_t> ranks) {
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&result))
    throw UserError(ExitCode::does_not_fit,
                    in_words(*infeasible, wanted.origins) + nearest_grids(wanted, ranks));
  return std::get<T>(std::move(result));
}

}  // namespace

config::Config load_config(const ConfigSource& source) {
  try {
    return config::load(source.files, source.sets);
  } catch (const config::UnfitGrid& error) {
    throw UserError(error.code(), error.what() + nearest_grids(error.config(), std::nullopt));
  }
}

Job plan_job(config::Config config, Graphs graphs, std::optional<std::int64_t> ranks) {
  Job job;
  const config::Config wanted = config;
  job.config = std::move(config);
  plan::Grid& grid = job.config.plan.grid;
  grid = feasible(plan::solve_grid(job.config.plan, ranks), wanted, ranks);
  config::share_values(job.config);
  const plan::Batching b = feasible(plan::solve_batching(job.config.plan), wanted, ranks);
  const data::DataSpec& data = job.config.data;
  job.graphs = model::build_gpt(
      job.config.model,
      {b.samples(), b.length, b.global_batch, data.mask_documents, data.restart_positions},
      job.config.optimizer,
      {.norm_parts = grid.y,
       .vocabulary_parts = grid.x * grid.y > 1,
       .writes_text = graphs == Graphs::generation || job.config.sample.tokens > 0});
  if (graphs == Graphs::generation)
    std::erase_if(job.graphs.graphs,
                  [](const auto& g) { return g.name != "prefill" && g.name != "decode"; });
  if (graphs == Graphs::evaluation)
    std::erase_if(job.graphs.graphs, [](const auto& g) { return g.name != "evaluate"; });
  job.plan = feasible(plan::make_plan(job.graphs, job.config.plan), wanted, ranks);
  return job;
}

Job make_job(config::Config config, Graphs graphs, std::optional<std::int64_t> ranks) {
  Job job = plan_job(std::move(config), graphs, ranks);
  if (!job.config.kernel_table.empty())
    job.kernel_table = read_file(job.config.kernel_table, ExitCode::bad_config);
  job.device = choose_device(job.config, job.ranks());
  job.target = target_of(job.config, job.kernel_table, job.ranks(), job.device);
  job.bundle = compile::compile(job.graphs, job.plan, job.target);
  return job;
}

program::Bundle bundle_of(const Job& job, std::int64_t rank) {
  if (rank < 0 || rank >= job.ranks())
    throw UserError(
        ExitCode::bad_config,
        format("there is no rank {}: the job has {}; choose one from 0 to {}", rank,
               job.ranks() == 1 ? "1 rank" : format("{} ranks", job.ranks()), job.ranks() - 1));
  program::Bundle bundle = job.bundle;
  program::bind(bundle, Rank(static_cast<std::size_t>(rank)));
  return bundle;
}

data::Dataset load_data(config::Config& config) {
  data::Dataset dataset(config.data);
  if (config.model.vocab_size == 0) config.model.vocab_size = dataset.vocab_size();
  if (config.model.vocab_size < dataset.vocab_size())
    throw UserError(ExitCode::bad_config, format("model.vocab_size = {} is smaller than the {} "
                                                 "tokens of the data ({}); leave it out or set "
                                                 "model.vocab_size = {}",
                                                 config.model.vocab_size, dataset.vocab_size(),
                                                 dataset.name(), dataset.vocab_size()));
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

void check_trainable(const config::Config& config) {
  if (config.plan.compute != DType::bf16 || config.kernels == "reference") return;
  throw UserError(
      ExitCode::bad_config,
      "precision.compute = bf16 cannot be trained here: the kernels of a CPU compute in fp32 and "
      "fp64; set precision.compute = fp32, or kernels = reference, whose plain loops take bf16 "
      "too, at a hundredth of the speed (plan, program and verify take bf16)");
}

std::int64_t checkpoint_copy_bytes(const Job& job) {
  return job.config.train.checkpoint.is_on() ? checkpoint::owned_bytes(job.bundle.at("train")) : 0;
}

}  // namespace fourfold::cli
