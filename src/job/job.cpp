#include "job/job.h"

#include <algorithm>
#include <filesystem>
#include <variant>

#include "base/cores.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "checkpoint/state.h"
#include "compile/fit.h"
#include "config/family.h"
#include "config/infeasible_text.h"
#include "data/token_sets.h"
#include "graph/update.h"
#include "job/cuda_run.h"
#include "job/kernel_table.h"
#include "job/nearest_grids.h"
#include "job/prove_pass.h"
#include "kernels/cpu/target.h"
#include "model/model.h"

namespace fourfold::job {
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

CudaKernels cuda_kernels(const config::Config& config) {
  if (config.kernels == "reference") return CudaKernels::own;
  return config.deterministic ? CudaKernels::repeatable : CudaKernels::fastest;
}

/// Rank threads share the cores of this process; ranks that are processes have cores of their own
/// and say so in run.threads.
machine::Target target_of(const config::Config& config, const std::string& kernel_table,
                          std::int64_t ranks, Device device, Purpose purpose) {
  if (device == Device::cuda)
    return *cuda_target(cuda_kernels(config),
                        measured_device_choices(kernel_table, config.kernel_table));
  if (config.kernels == "reference") return kernels::cpu::reference_target();
  const bool is_for_a_cpu = purpose == Purpose::run || config.device == "cpu";
  if (config.plan.compute == DType::bf16 && !is_for_a_cpu) return target_without_kernels();
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
std::string in_words(const plan::Infeasible& infeasible, const config::Config& config) {
  const bool is_alone = infeasible.problems.size() < 2;
  std::string text;
  for (const plan::Problem& problem : infeasible.problems) {
    const auto [keys, message] = config::in_words(problem, config.kind);
    text += (text.empty() ? "" : "\n") + std::string(is_alone ? "" : "error: ") + message +
            places_of(keys, config.origins);
  }
  return text;
}

std::string in_words(const compile::DoesNotFit& not_fitted, const config::Config& config) {
  std::string tensors;
  for (const compile::DoesNotFit::Tensor& tensor : not_fitted.largest)
    tensors +=
        format("{}{} {}", tensors.empty() ? "" : ", ", tensor.name, format_bytes(tensor.bytes));
  constexpr std::int64_t mebi = std::int64_t{1} << 20;
  return format(
      "memory.limit = {}: a rank needs at least {}{}; the largest tensors are {}; raise the limit "
      "to {}MiB, reduce train.micro_batch_size, or use more ranks{}",
      exact_bytes(*config.plan.memory_limit), format_bytes(not_fitted.least_bytes),
      config.plan.checkpointing.is_auto ? " where layers are computed again" : "", tensors,
      (not_fitted.least_bytes + mebi - 1) / mebi, places_of({"memory.limit"}, config.origins));
}

/// `wanted` is the configuration before anything of it was settled.
template <class T>
T feasible(std::variant<T, plan::Infeasible> result, const config::Config& wanted,
           std::optional<std::int64_t> ranks) {
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&result)) {
    if (std::ranges::any_of(infeasible->problems, plan::is_of_any_grid))
      throw UserError(ExitCode::bad_config, in_words(*infeasible, wanted));
    throw UserError(ExitCode::does_not_fit,
                    in_words(*infeasible, wanted) + nearest_grids(wanted, ranks));
  }
  return std::get<T>(std::move(result));
}

void keep_graphs(graph::ModelGraphs& model, std::initializer_list<op::ProgramKind> kinds) {
  std::erase_if(model.graphs, [&](const graph::Graph& graph) {
    return std::ranges::find(kinds, graph.kind) == kinds.end();
  });
}

}  // namespace

const program::Bundle& Job::bundle() const {
  require(!programs.classes.empty(), "a job that is asked for its programs is compiled");
  return *std::ranges::max_element(programs.classes, {}, [](const program::Bundle& bundle) {
    return bundle.persistent_bytes + bundle.transient_bytes;
  });
}

Job plan_job(config::Config config, Graphs graphs, std::optional<std::int64_t> ranks) {
  Job job;
  const config::Config wanted = config;
  job.config = std::move(config);
  job.config.plan.grid = feasible(plan::solve_grid(job.config.plan_spec(), ranks), wanted, ranks);
  const plan::PlanSpec spec = job.config.plan_spec();
  const plan::Batching b = feasible(plan::solve_batching(spec), wanted, ranks);
  const data::DataSpec data = job.config.data_spec();
  job.graphs = model::build(job.config.model(),
                            {b.samples(), b.length, b.global_batch, data.mask_documents,
                             data.restart_positions, b.chunks},
                            job.config.optimizer,
                            graphs != Graphs::of_run || job.config.sample.tokens > 0
                                ? model::Writes::samples
                                : model::Writes::nothing);
  if (graphs == Graphs::of_run) graph::read_averages(job.graphs);
  if (graphs == Graphs::generation)
    keep_graphs(job.graphs,
                {op::ProgramKind::prefill, op::ProgramKind::decode, op::ProgramKind::denoise});
  if (graphs == Graphs::evaluation)
    keep_graphs(job.graphs, {op::ProgramKind::evaluate, op::ProgramKind::bound});
  auto [model, plan] = feasible(plan::plan_model(std::move(job.graphs), spec), wanted, ranks);
  job.graphs = std::move(model);
  job.plan = std::move(plan);
  return job;
}

Job make_job(config::Config config, Graphs graphs, std::optional<std::int64_t> ranks,
             const compile::PassOptions& passes, Purpose purpose) {
  require(!config.open_axes.any(), "the grid is settled before a job is made (open_grid.h)");
  Job job = plan_job(std::move(config), graphs, ranks);
  job.kernel_table = named_kernel_table(job.config.kernel_table);
  job.device = choose_device(job.config, job.ranks());
  job.gpu.ranks = job.ranks();
  job.target = target_of(job.config, job.kernel_table, job.ranks(), job.device, purpose);
  job.left_open = {job.plan.checkpointing, job.plan.cached_gathers, job.plan.memory_limit,
                   job.plan.orders};
  auto fitted =
      compile::compile_to_fit(job.graphs, std::move(job.plan), job.target, proved_in_debug(passes));
  if (const auto* not_fitted = std::get_if<compile::DoesNotFit>(&fitted))
    throw UserError(ExitCode::does_not_fit, in_words(*not_fitted, job.config));
  job.plan = std::move(std::get<compile::Fitted>(fitted).plan);
  job.programs = std::move(std::get<compile::Fitted>(fitted).job);
  return job;
}

machine::Target target_for(const config::Config& config, std::int64_t ranks) {
  return target_of(config, named_kernel_table(config.kernel_table), ranks,
                   choose_device(config, ranks), Purpose::look);
}

namespace {

/// Whatever fits best where nothing does.
void compile_again(Job& job) {
  plan::Plan plan = std::move(job.plan);
  plan.checkpointing = job.left_open.checkpointing;
  plan.checkpointing_of_meshes.clear();
  plan.cached_gathers = job.left_open.cached_gathers;
  plan.memory_limit = job.left_open.memory_limit;
  plan.orders = job.left_open.orders;
  auto made = compile::compile_to_fit(job.graphs, std::move(plan), job.target, proved_in_debug({}));
  auto* none_fits = std::get_if<compile::DoesNotFit>(&made);
  compile::Fitted& fitted =
      none_fits != nullptr ? none_fits->least : std::get<compile::Fitted>(made);
  job.plan = std::move(fitted.plan);
  job.programs = std::move(fitted.job);
}

}  // namespace

void compile_within(Job& job, std::int64_t bytes) {
  job.left_open.memory_limit = bytes;
  compile_again(job);
}

void use_kernels(Job& job, std::string table) {
  job.target = target_of(job.config, table, job.ranks(), job.device, Purpose::run);
  job.kernel_table = std::move(table);
  compile_again(job);
}

double model_flops_of_run(const Job& job) {
  return model::model_flops_per_step(job.config.model(), job.plan.batching.global_batch,
                                     job.plan.batching.length) *
         static_cast<double>(job.config.train.steps);
}

program::Bundle bundle_of(const Job& job, std::int64_t rank) {
  if (rank < 0 || rank >= job.ranks())
    throw UserError(
        ExitCode::bad_config,
        format("there is no rank {}: the job has {}; choose one from 0 to {}", rank,
               job.ranks() == 1 ? "1 rank" : format("{} ranks", job.ranks()), job.ranks() - 1));
  return program::bundle_of(job.programs, Rank(static_cast<std::size_t>(rank)));
}

namespace {

/// Errors also say where the configuration names a file that is not there.
std::unique_ptr<const data::Source> read_data(const config::Config& config, DataUse use) {
  try {
    data::DataSpec spec = config.data_spec();
    if (use == DataUse::validation) spec.samples_per_step = 1;
    return data::open_source(spec);
  } catch (const UserError& error) {
    std::vector<std::string> keys;
    for (const data::MissingFile& file : data::missing_files(config.data_spec()))
      keys.push_back(file.key);
    if (keys.empty()) throw;
    throw UserError(
        error.code(),
        format("{}{}\n      paths are seen from the current directory, {}", error.what(),
               places_of(keys, config.origins), std::filesystem::current_path().string()));
  }
}

}  // namespace

namespace {

/// As many labels as the data have, where that is left open; at least as many.
void settle_labels(std::int64_t& labels, const config::Config& config, const data::Source& source) {
  const std::int64_t in_data = source.num_labels();
  if (labels == 0) labels = in_data;
  const std::string& key = config::family_schema(config.kind).labels_key;
  if (labels < in_data)
    throw UserError(ExitCode::bad_config,
                    format("{} = {} is smaller than the {} {} of the data ({}); leave it out or "
                           "set {} = {}",
                           key, labels, in_data,
                           config.family().reads == model::Reads::text ? "tokens" : "classes",
                           source.name(), key, in_data));
}

void settle_picture(std::vector<std::int64_t>& picture, const config::Config& config,
                    const data::Source& source) {
  const std::vector<std::int64_t>& in_data = source.inputs()[0].sample_shape.dims();
  if (picture.empty()) picture = in_data;
  if (picture != in_data)
    throw UserError(ExitCode::bad_config,
                    format("{} = {} is not the size of the data's pictures, {} ({}); leave it out",
                           config::family_schema(config.kind).picture_key,
                           to_string(Shape(picture)), to_string(Shape(in_data)), source.name()));
}

}  // namespace

std::unique_ptr<const data::Source> load_data(config::Config& config, DataUse use) {
  std::unique_ptr<const data::Source> source = read_data(config, use);
  model::DataFacts facts = model::data_facts(config.model());
  if (config.family().reads == model::Reads::pictures) {
    settle_picture(facts.picture, config, *source);
    config.set_model(model::settled(config.model(), facts));
    if (const auto fault = config::picture_fault(config))
      throw UserError(ExitCode::bad_config, format("{} ({})", *fault, source->name()));
  }
  settle_labels(facts.num_labels, config, *source);
  config.set_model(model::settled(config.model(), facts));
  return source;
}

bool needs_data(const config::Config& config) {
  return model::needs_data(config.model());
}

void resolve_model(config::Config& config) {
  if (needs_data(config)) load_data(config);
}

int resolve_threads(int threads) {
  return threads > 0 ? threads : num_usable_cores();
}

std::int64_t checkpoint_copy_bytes(const Job& job) {
  return job.config.train.checkpoint.is_on()
             ? checkpoint::owned_bytes(job.bundle().at(op::ProgramKind::train))
             : 0;
}

}  // namespace fourfold::job
