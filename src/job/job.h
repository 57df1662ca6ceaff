// From a settled configuration to the compiled programs of all ranks: what all subcommands share.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compile/passes.h"
#include "config/settled.h"
#include "graph/graph.h"
#include "job/device.h"
#include "job/graphs.h"
#include "machine/target.h"
#include "plan/plan.h"
#include "program/job.h"

namespace fourfold::job {

/// What programs are compiled for: to run here, or to be looked at. In bf16 those that are looked
/// at are for GPUs somewhere, unless run.device says cpu: they are compiled for no kernels in
/// particular, so that what a plan says does not depend on the CPU that made it.
enum class Purpose { run, look };

/// A run with its graphs and their plan; nothing is compiled.
struct PlannedRun {
  config::Settled settled;
  graph::ModelGraphs graphs;
  plan::Plan plan;

  std::int64_t ranks() const { return plan.world; }
};

/// Errors: UserError(does_not_fit) where no plan is legal.
PlannedRun plan_run(config::Settled settled, Graphs graphs = Graphs::of_run);

/// Everything known about a run before it starts.
struct Job : PlannedRun {
  plan::Fit fit;             // of the plan, for the memory of a rank
  std::string kernel_table;  // a text of machine/kernel_table.h; empty: the built-in table
  Device device = Device::cpu;
  measure::GpuPlace gpu;  // where the device is one
  machine::Target target;
  program::Job programs;
  double compiling_s = 0;  // that planning and compiling took

  /// What ranks of the class run that needs most memory; of a job on one mesh, all ranks alike.
  const program::Bundle& bundle() const;
};

/// The bundle of any rank of the job. Errors: UserError(bad_config) where the job has no such rank.
program::Bundle bundle_of(const Job& job, std::int64_t rank);

/// How a run is prepared.
struct HowToPrepare {
  Graphs graphs = Graphs::of_run;
  Purpose purpose = Purpose::run;
  compile::PassOptions passes = {};
};

/// What is found out about a run on the machine, once it is planned.
struct FoundHere {
  std::string kernel_table = {};  // empty: the built-in table
  std::optional<measure::GpuPlace> gpu =
      std::nullopt;  // none: ranks are threads, and share the first one
  /// Bytes that a rank has for both regions where the configuration states no limit.
  std::optional<std::int64_t> memory_bytes = std::nullopt;
};

/// A run that is planned, and compiled as far as neither kernels nor memory are asked for. What is
/// found out on the machine meanwhile goes into the rest: a run is compiled once.
class Preparation {
 public:
  /// Errors: those of plan_run and choose_device; UserError(bad_config) for a kernel table that is
  /// not for this machine.
  explicit Preparation(config::Settled settled, const HowToPrepare& how = {});
  ~Preparation();
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  const PlannedRun& planned() const;
  const config::Config& config() const { return planned().settled.config(); }
  Device device() const;
  const machine::Target& target() const;  // with the named kernel table
  /// The training program of each class of ranks, without kernels.
  std::vector<const program::Program*> training_programs() const;
  /// All programs so, by class; which rank they are for is not filled in yet.
  std::vector<std::vector<const program::Program*>> programs_by_class() const;
  /// With the table of run.kernel_table.
  FoundHere nothing_found() const;

  /// To be called once. Errors: UserError(does_not_fit) where a limit on memory that the
  /// configuration states is too small; UserError(bad_config) where the table is not for this
  /// machine or the job's threads. Where the memory is too small and no limit is stated, the job is
  /// the one that needs least.
  Job finish(const FoundHere& found);

 private:
  struct Work;
  std::unique_ptr<Work> work_;
};

/// Plans and compiles. Errors: those of Preparation.
Job prepare(config::Settled settled, const HowToPrepare& how = {});

/// The kernels that the programs of a configuration are compiled for on this machine, as prepare
/// takes them for programs that are looked at.
machine::Target target_for(const config::Config& config, std::int64_t ranks);

/// What all steps of the run compute, recomputation apart.
double model_flops_of_run(const PlannedRun& run);

/// `threads` of the configuration, or all usable cores for 0.
int resolve_threads(int threads);

/// What a rank of a run that saves checkpoints has beside both regions: the copy from which they
/// are written.
std::int64_t checkpoint_copy_bytes(const Job& job);
std::int64_t checkpoint_copy_bytes(const Preparation& preparation);

}  // namespace fourfold::job
