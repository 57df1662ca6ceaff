// Every legal grid of a configuration, of one mesh and of stages, priced on a described machine,
// the best ones compiled and simulated: what `plan --machine` asks. Not how it is shown
// (ranking_text.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "job/job.h"
#include "machine/cluster.h"
#include "search/compare_plans.h"
#include "search/rank_grids.h"
#include "search/rivals.h"

namespace fourfold::job {

struct Ranking {
  config::Config config;
  machine::Cluster cluster;
  std::int64_t ranks = 1;
  std::int64_t node_ranks = 1;  // of a host, as far as the machine says what that is
  search::Answer answer;        // with a plan at least
  std::vector<search::Rival> rivals;
  std::vector<search::Rival> pipelined_rivals;  // of a model of equal blocks
  double checkpoint_bytes = 0;                  // of one, its headers apart
};

/// What is asked.
struct PlansAsked {
  std::optional<std::int64_t> ranks, nodes;  // one of them; none: as many as the grid needs
  std::size_t simulated = 0;                 // so many of the best are compiled and simulated
  /// Only grids that have the sizes, the order and the stages that the configuration states.
  bool keeps_what_is_set = false;
};

/// True if the grid has the sizes that the configuration states; axes that are open may have any.
bool has_sizes_set(const config::Config& config, const plan::Grid& grid);

/// Prices all grids, and compiles and simulates the best ones. The grid of the configuration is not
/// looked at but for its order and strategy, unless what is set there is to be kept. A number of
/// stages and a schedule that it states are kept; where it leaves the number open or, unless what
/// is set is to be kept, says nothing of it, all powers of two are looked at.
/// Requires a model that needs no data (model_of). Errors: UserError(bad_config) for nodes of
/// a machine that does not say what they are, for several stages per mesh, and a type that it has
/// no rate for; UserError(does_not_fit) for ranks that it does not have, where no grid is legal,
/// with grids that are, or where none fits the memory, with the largest tensors.
Ranking rank_plans(const config::Config& config, machine::Cluster cluster, const PlansAsked& asked);

/// A plan of a ranking, by its place from 1 on, with its graphs. Errors: UserError(bad_config)
/// where the list has no such place.
PlannedRun planned_of(const Ranking& ranking, std::int64_t number);

/// What two of its plans, of one mesh each, do otherwise.
search::PlanDifferences differences_of(const Ranking& ranking, const search::PricedPlan& a,
                                       const search::PricedPlan& b);

/// The assignment problem of the layouts on the grid of such a plan, of one mesh, as a file.
/// Errors: those of planned_of; UserError(bad_config) for a plan in stages.
std::string layout_problem_of(const Ranking& ranking, std::int64_t number);

}  // namespace fourfold::job
