// Plans of one grid whose layouts are searched for, beside the plan of the strategy. Not the search
// (choose_layout.h), nor which grids there are (rank_grids.h).
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/plan_spec.h"
#include "search/price.h"

namespace fourfold::search {

/// What people call a plan by how its tensors are cut: "searched", "given", or its strategy.
std::string layout_word(const plan::PlanSpec& spec);

/// The specs of the plans that are searched for on the grid and in the order of ranks of a spec,
/// each with its layout; none where that is the strategy's own, or where a problem is too large for
/// the solver. The search begins with the strategy's layout; where the grid has none, with weights
/// that are whole. Requires a spec whose batch is divided. Cost: that of choose_layout.
std::vector<plan::PlanSpec> searched_plans(const graph::ModelGraphs& model,
                                           const plan::PlanSpec& spec, Pricer& pricer);

}  // namespace fourfold::search
