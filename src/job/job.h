// From a configuration to the compiled programs of all ranks: what all subcommands share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compile/passes.h"
#include "config/config.h"
#include "data/source.h"
#include "graph/graph.h"
#include "job/device.h"
#include "machine/target.h"
#include "plan/plan.h"
#include "program/job.h"

namespace fourfold::job {

/// What a plan leaves to be chosen so that it fits into a rank's memory, as it was before.
struct LeftOpen {
  plan::Checkpointing checkpointing;
  std::optional<std::int64_t> cached_gathers, memory_limit;
  std::vector<pipeline::Order> orders;
};

/// Everything known about a run before it starts.
struct Job {
  config::Config config;  // vocabulary, grid and micro-batch settled
  graph::ModelGraphs graphs;
  LeftOpen left_open;        // by the plan that was made
  plan::Plan plan;           // with nothing left open
  std::string kernel_table;  // a text of machine/kernel_table.h; empty: the built-in table
  Device device = Device::cpu;
  GpuPlace gpu;  // where the device is one
  machine::Target target;
  program::Job programs;

  std::int64_t ranks() const { return plan.world; }
  /// What ranks of the class run that needs most memory; of a job on one mesh, all ranks alike.
  const program::Bundle& bundle() const;
};

/// The bundle of any rank of the job. Errors: UserError(bad_config) where the job has no such rank.
program::Bundle bundle_of(const Job& job, std::int64_t rank);

/// Which graphs of the model a job needs. A run that shows no sample has none for writing text, and
/// no cache.
enum class Graphs { of_run, generation, evaluation };

/// What programs are compiled for: to run here, or to be looked at. In bf16 those that are looked
/// at are for GPUs somewhere, unless run.device says cpu: they are compiled for no kernels in
/// particular, so that what a plan says does not depend on the CPU that made it.
enum class Purpose { run, look };

/// As make_job, but nothing is compiled: neither target nor bundle are there.
Job plan_job(config::Config config, Graphs graphs = Graphs::of_run,
             std::optional<std::int64_t> ranks = std::nullopt);

/// Plans and compiles for a job of so many ranks; none: as many as the grid needs, one where
/// parallel.data is auto. Errors: UserError(does_not_fit) where no plan is legal.
Job make_job(config::Config config, Graphs graphs = Graphs::of_run,
             std::optional<std::int64_t> ranks = std::nullopt,
             const compile::PassOptions& passes = {}, Purpose purpose = Purpose::run);

/// The kernels that the programs of a configuration are compiled for on this machine, as make_job
/// takes them for programs that are looked at.
machine::Target target_for(const config::Config& config, std::int64_t ranks);

/// Compiles the job again for a rank that has so many bytes for both regions: what the
/// configuration leaves open is chosen so that it fits or, where nothing does, so that it needs
/// least.
void compile_within(Job& job, std::int64_t bytes);

/// Compiles the job again with the kernels of a table's text. Errors: UserError(bad_config) where
/// the table is not for this machine or the job's threads.
void use_kernels(Job& job, std::string table);

/// What all steps of the run compute, recomputation apart.
double model_flops_of_run(const Job& job);

/// What data are for. Where none is trained on, any number of samples will do.
enum class DataUse { training, validation };

/// The data of the configuration; sets from them what the configuration leaves open of the model: a
/// vocabulary, the size of a picture, classes. Errors: UserError(bad_data), or
/// UserError(bad_config) where model and data do not fit.
std::unique_ptr<const data::Source> load_data(config::Config& config,
                                              DataUse use = DataUse::training);

/// True if the model is left open until the data are read.
bool needs_data(const config::Config& config);
/// Sets what load_data sets for subcommands that need no data otherwise; reads the data only where
/// something is left open.
void resolve_model(config::Config& config);

/// `threads` of the configuration, or all usable cores for 0.
int resolve_threads(int threads);

/// What a rank of a run that saves checkpoints has beside both regions: the copy from which they
/// are written.
std::int64_t checkpoint_copy_bytes(const Job& job);

}  // namespace fourfold::job
