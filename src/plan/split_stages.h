// A training graph cut into stages that run on meshes of their own.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace fourfold::plan {

/// A value that goes from one stage to another, whole: each receiving rank gets all of it from one
/// sending rank.
struct Transfer {
  std::string value;             // its name where it is made
  std::string into;              // and where it arrives
  std::size_t from = 0, to = 0;  // stages
  graph::Phase phase = graph::Phase::forward;
  bool operator==(const Transfer&) const = default;
};

struct Stages {
  std::vector<graph::Graph> graphs;  // by stage
  /// In the order in which values leave their stage; they arrive in the same order.
  std::vector<Transfer> transfers;
};

/// Cuts behind the blocks `last_blocks` (of all stages but the last). What stands before the blocks
/// belongs to the first stage, what stands behind them to the last. A parameter belongs to the
/// stage of its first use; other stages receive it, and send back what they add to its gradient.
/// The sums behind the update's decision are exchanged, so that all stages decide alike.
Stages split_stages(const graph::Graph& train, const std::vector<std::int64_t>& last_blocks);

}  // namespace fourfold::plan
