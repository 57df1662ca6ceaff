// The grid, the stages and the layout of a configuration that leaves them to the planner:
// `parallel.tensor: auto`, `parallel.pipeline.stages: auto`, `parallel.strategy: auto`. Not the
// search (rank_plans.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/changes.h"
#include "config/config.h"
#include "job/rank_plans.h"
#include "machine/cluster.h"

namespace fourfold::job {

/// The ranks of a job and where they are.
struct RanksThere {
  std::int64_t ranks = 1;
  std::int64_t of_host = 1;  // on each host
};

/// As many as `train` has without a launcher: those of a grid that is stated, else a rank a core of
/// this process, or one on a GPU.
RanksThere ranks_of_this_host(const config::Config& config);

struct ChosenMachine {
  machine::Cluster cluster;
  std::string text;  // what it is, in a few words
};
/// True if the configuration says on which machine, and does not leave it to the program.
bool names_machine(const config::Config& config);
/// The machine of run.machine; where that is auto, a description of hosts like this one, of which
/// the program has the figures: devices by what answers here, rates by the nearest known machine,
/// links between hosts of 10 Gbit/s. Errors: those of machine::load_cluster.
ChosenMachine machine_of(const config::Config& config, const RanksThere& there);

/// So many of the best grids by closed form are simulated.
constexpr std::size_t grids_simulated = 10;

struct ChosenGrid : config::GridChoice {
  std::string text;  // which it is, of how many, on what, and what a step takes: a line
  std::optional<Ranking> ranking = {};  // all grids; none: it was not chosen now
};
/// The fastest grid for so many ranks of a machine, of those that have what the configuration
/// states: the best ones by closed form are simulated. Requires a model that needs no data
/// (model_of), and a configuration that leaves something of its plan open. A layout that was
/// searched for has the name of a file in the folder of the run. Errors: those of rank_plans.
ChosenGrid choose_grid(const config::Config& config, std::int64_t ranks,
                       const ChosenMachine& machine);

/// The grid of an earlier run in place of a choice; nothing where it has another number of ranks,
/// or other sizes, stages or strategy than the configuration states.
std::optional<ChosenGrid> kept_grid(const config::Config& config, const config::Config& earlier,
                                    std::int64_t ranks);

}  // namespace fourfold::job
