#include "job/job.h"

#include <algorithm>
#include <variant>

#include "base/cores.h"
#include "base/error.h"
#include "base/format.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "checkpoint/state.h"
#include "compile/fit.h"
#include "config/family.h"
#include "job/find_kernels.h"
#include "job/prove_pass.h"
#include "job/settle.h"
#include "kernels/cpu/target.h"
#include "measure/cuda_run.h"
#include "measure/kernel_table.h"
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

measure::CudaKernels cuda_kernels(const config::Config& config) {
  if (config.kernels == "reference") return measure::CudaKernels::own;
  return config.deterministic ? measure::CudaKernels::repeatable : measure::CudaKernels::fastest;
}

/// Rank threads share the cores of this process; ranks that are processes have cores of their own
/// and say so in run.threads.
machine::Target target_of(const config::Config& config, const std::string& kernel_table,
                          std::int64_t ranks, Device device, Purpose purpose) {
  if (device == Device::cuda)
    return *measure::cuda_target(
        cuda_kernels(config), measure::measured_device_choices(kernel_table, config.kernel_table));
  if (config.kernels == "reference") return kernels::cpu::reference_target();
  const bool is_for_a_cpu = purpose == Purpose::run || config.device == "cpu";
  if (config.plan.compute == DType::bf16 && !is_for_a_cpu) return target_without_kernels();
  const int cores = resolve_threads(config.threads);
  const auto share = static_cast<int>(std::min<std::int64_t>(ranks, cores));
  const int threads = config.threads > 0 ? config.threads : cores / share;
  return kernels::cpu::target(
      threads, measure::measured_choices(kernel_table, config.kernel_table, threads));
}

/// The most elements of a head in any graph; 0 where there is no attention, whose rows read the
/// heads first.
std::int64_t widest_head(const graph::ModelGraphs& graphs) {
  std::int64_t widest = 0;
  for (const graph::Graph& graph : graphs.graphs)
    for (const graph::Node& node : graph.nodes)
      if (op::work_class(node.op) == op::WorkClass::core)
        widest = std::max(widest, graph.value(node.reads[0]).shape.back());
  return widest;
}

/// Gives the target back. Errors: UserError(bad_config) where heads are wider than it computes.
machine::Target with_kernels_for(const PlannedRun& run, machine::Target target) {
  const std::int64_t width = widest_head(run.graphs);
  if (!target.most_head_width || width <= *target.most_head_width) return target;
  const config::Config& config = run.settled.config();
  const std::string& key = config::family_schema(config.kind).heads_key;
  throw UserError(ExitCode::bad_config,
                  format("{} is too small: heads have {} elements, and attention on a GPU computes "
                         "heads of at most {}; {}, or set run.device = cpu{}",
                         key, width, *target.most_head_width,
                         config::heads_that_work(config, width, *target.most_head_width),
                         places_of({key}, config.origins)));
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

}  // namespace

const program::Bundle& Job::bundle() const {
  require(!programs.classes.empty(), "a job that is asked for its programs is compiled");
  return *std::ranges::max_element(programs.classes, {}, [](const program::Bundle& bundle) {
    return bundle.persistent_bytes + bundle.transient_bytes;
  });
}

PlannedRun plan_run(config::Settled settled, Graphs graphs) {
  auto planned = plan::plan_model(build_graphs(settled, graphs), settled.plan());
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&planned))
    refuse(*infeasible, settled.config(), std::nullopt);
  auto& [cut, plan] = std::get<plan::PlannedModel>(planned);
  return {std::move(settled), std::move(cut), std::move(plan)};
}

struct Preparation::Work {
  PlannedRun planned;
  HowToPrepare how;
  std::string kernel_table;  // the named one
  Device device;
  machine::Target target;
  compile::Compilation compilation;
  double compiling_s = 0;

  Work(PlannedRun its, HowToPrepare how_it_is, std::string table)
      : planned(std::move(its)),
        how(std::move(how_it_is)),
        kernel_table(std::move(table)),
        device(choose_device(planned.settled.config(), planned.ranks())),
        target(with_kernels_for(planned, target_of(planned.settled.config(), kernel_table,
                                                   planned.ranks(), device, how.purpose))),
        compilation(planned.graphs, planned.plan, target, how.passes) {}
};

Preparation::Preparation(config::Settled settled, const HowToPrepare& how) {
  const Stopwatch watch;
  PlannedRun planned = plan_run(std::move(settled), how.graphs);
  std::string table = named_kernel_table(planned.settled.config().kernel_table);
  work_ = std::make_unique<Work>(std::move(planned),
                                 HowToPrepare{how.graphs, how.purpose, proved_in_debug(how.passes)},
                                 std::move(table));
  work_->compiling_s = watch.seconds();
}

Preparation::~Preparation() = default;

const PlannedRun& Preparation::planned() const {
  return work_->planned;
}

Device Preparation::device() const {
  return work_->device;
}

const machine::Target& Preparation::target() const {
  return work_->target;
}

FoundHere Preparation::nothing_found() const {
  return {.kernel_table = work_->kernel_table};
}

std::vector<const program::Program*> Preparation::training_programs() const {
  const Stopwatch watch;
  std::vector<const program::Program*> programs =
      work_->compilation.programs(op::ProgramKind::train);
  work_->compiling_s += watch.seconds();
  return programs;
}

std::vector<std::vector<const program::Program*>> Preparation::programs_by_class() const {
  const Stopwatch watch;
  std::vector<std::vector<const program::Program*>> classes;
  for (const op::ProgramKind kind : op::all_program_kinds) {
    const auto of_kind = work_->compilation.programs(kind);
    classes.resize(std::max(classes.size(), of_kind.size()));
    for (std::size_t i = 0; i < of_kind.size(); ++i) classes[i].push_back(of_kind[i]);
  }
  work_->compiling_s += watch.seconds();
  return classes;
}

Job Preparation::finish(const FoundHere& found) {
  Work& work = *work_;
  const Stopwatch watch;
  const std::int64_t ranks = planned().ranks();
  machine::Target target =
      target_of(config(), found.kernel_table, ranks, work.device, work.how.purpose);
  auto made = compile::finish_to_fit(work.compilation, planned().graphs, planned().plan, target,
                                     found.memory_bytes, work.how.passes);
  auto* none_fits = std::get_if<compile::DoesNotFit>(&made);
  if (none_fits != nullptr && planned().plan.memory_limit)
    throw UserError(ExitCode::does_not_fit, in_words(*none_fits, config()));
  compile::Fitted& fitted =
      none_fits != nullptr ? none_fits->least : std::get<compile::Fitted>(made);
  return {std::move(work.planned),
          std::move(fitted.fit),
          found.kernel_table,
          work.device,
          found.gpu.value_or(measure::GpuPlace{.index = 0, .ranks = ranks}),
          std::move(target),
          std::move(fitted.job),
          work.compiling_s + watch.seconds()};
}

Job prepare(config::Settled settled, const HowToPrepare& how) {
  Preparation preparation(std::move(settled), how);
  return preparation.finish(preparation.nothing_found());
}

machine::Target target_for(const config::Config& config, std::int64_t ranks) {
  return target_of(config, named_kernel_table(config.kernel_table), ranks,
                   choose_device(config, ranks), Purpose::look);
}

double model_flops_of_run(const PlannedRun& run) {
  const plan::Batching& b = run.plan.batching;
  return model::model_flops_per_step(run.settled.model(), b.global_batch, b.length) *
         static_cast<double>(run.settled.config().train.steps);
}

program::Bundle bundle_of(const Job& job, std::int64_t rank) {
  if (rank < 0 || rank >= job.ranks())
    throw UserError(
        ExitCode::bad_config,
        format("there is no rank {}: the job has {}; choose one from 0 to {}", rank,
               job.ranks() == 1 ? "1 rank" : format("{} ranks", job.ranks()), job.ranks() - 1));
  return program::bundle_of(job.programs, Rank(static_cast<std::size_t>(rank)));
}

int resolve_threads(int threads) {
  return threads > 0 ? threads : num_usable_cores();
}

std::int64_t checkpoint_copy_bytes(const Job& job) {
  return job.settled.config().train.checkpoint.is_on()
             ? checkpoint::owned_bytes(job.bundle().at(op::ProgramKind::train))
             : 0;
}

std::int64_t checkpoint_copy_bytes(const Preparation& preparation) {
  std::int64_t most = 0;
  if (!preparation.config().train.checkpoint.is_on()) return most;
  for (const program::Program* program : preparation.training_programs())
    most = std::max(most, checkpoint::owned_bytes(*program));
  return most;
}

}  // namespace fourfold::job
