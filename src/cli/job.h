// From a configuration to the compiled bundle: what all subcommands share.
#pragma once

#include <optional>
#include <string>

#include "cli/commands.h"
#include "config/config.h"
#include "data/dataset.h"
#include "graph/graph.h"
#include "machine/target.h"
#include "plan/plan.h"
#include "program/program.h"

namespace fourfold::cli {

/// Reads and checks the configuration.
config::Config load_config(const ConfigSource& source);

/// Everything known about a run before it starts.
struct Job {
  config::Config config;  // vocab_size filled in
  graph::ModelGraphs graphs;
  plan::Plan plan;
  machine::Target target;
  program::Bundle bundle;
};

/// Which graphs of the model a job needs.
enum class Graphs { all, generation };

/// Plans and compiles. Errors: UserError(does_not_fit) where no plan is legal.
Job make_job(config::Config config, Graphs graphs = Graphs::all);

/// The data of the configuration; sets the model's vocabulary from them where the configuration
/// leaves it open. Errors: UserError(bad_data), or UserError(bad_config) where model.vocab_size is
/// smaller than the data's.
data::Dataset load_data(config::Config& config);

/// Fills model.vocab_size for subcommands that need no data otherwise; reads the data only where it
/// is left open.
void resolve_vocabulary(config::Config& config);

/// Cores that this process may use: those of its affinity mask.
int available_cores();
/// `threads` of the configuration, or all available cores for 0.
int resolve_threads(int threads);

/// Throws UserError(does_not_fit) when the bundle's two regions exceed the memory that this process
/// may have.
void check_memory(const program::Bundle& bundle);

}  // namespace fourfold::cli
