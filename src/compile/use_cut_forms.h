// Ops whose whole factors ranks share, replaced by rows that compute the same in parts.
#pragma once

#include "graph/graph.h"
#include "plan/plan.h"

namespace fourfold::compile {

struct CutGraph {
  graph::Graph graph;
  plan::GraphShardings shardings;
};

/// Puts the cut form (op::cut_form) in the place of each op of which the plan cuts a factor that
/// the op wants whole: a norm's moments are then those of one chunk for each rank that shares its
/// channels. What stands in between is kept as it is made, partial sums reduced. The model's graph
/// is the same for all plans; this one is not.
CutGraph use_cut_forms(const graph::Graph& graph, const plan::Plan& plan);

}  // namespace fourfold::compile
