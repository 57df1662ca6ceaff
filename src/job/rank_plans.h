// Every legal grid of a configuration priced on a described machine: what `plan --machine` asks.
// Nothing is compiled. Not how it is shown (ranking_text.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "machine/cluster.h"
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
};

/// How many ranks are asked for.
struct RanksAsked {
  std::optional<std::int64_t> ranks, nodes;  // one of them; none: as many as the grid needs
};

/// The ranks of a host: those of a unit of the level "host", else of the innermost level where
/// there are several; none where one level is all that is known.
std::optional<std::int64_t> ranks_of_node(const machine::Cluster& cluster);

/// Prices all grids. The grid of the configuration is not looked at but for its order and strategy.
/// Requires a settled model (resolve_model). Errors: UserError(bad_config) for nodes of a machine
/// that does not say what they are, and a type that it has no rate for; UserError(does_not_fit) for
/// ranks that it does not have, where no grid is legal, with grids that are, or where none fits the
/// memory, with the largest tensors.
Ranking rank_plans(config::Config config, machine::Cluster cluster, RanksAsked asked);

}  // namespace fourfold::job
