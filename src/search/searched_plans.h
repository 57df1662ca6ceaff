// Plans of one grid whose layouts are searched for, beside the plan of the strategy. Not the search
// (choose_layout.h), nor which grids there are (rank_grids.h).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "plan/infeasible.h"
#include "plan/plan_spec.h"
#include "search/price.h"

namespace fourfold::search {

/// What people call a plan by how its tensors are cut: "searched", "given", or its strategy.
std::string layout_word(const plan::PlanSpec& spec);

struct SearchedPlans {
  std::vector<plan::PlanSpec> specs;
  /// A layout that is found is the strategy's own, whose plan stands in the list without it.
  bool finds_strategys = false;
  /// So many parameters, all that there are, were cut where memory still had no room.
  std::size_t cut_in_vain = 0;
  /// Why there was no search, where a problem is too large for any solver.
  std::string refused;
};

/// The specs of the plans that are searched for on the grid and in the order of ranks of a spec,
/// each with its layout: those that take least if nothing, half or all of what may run beside
/// computation costs nothing. In place of those that memory has no room for stands one for which it
/// has, in which as few as will do of the largest parameters are cut; where there is none, the one
/// that needs least. None where all are the strategy's own, or where a problem is too large for the
/// solvers: elimination, or where its tables would be too large "o2", which is not exact. The
/// search begins with the strategy's layout; where the grid has none, with weights that are whole.
/// `fits`: whether memory has room for the plan of a spec. Requires a spec whose batch is divided.
/// Infeasible where pins have a fault. Cost: that of choose_layouts.
std::variant<SearchedPlans, plan::Infeasible> searched_plans(
    const graph::ModelGraphs& model, const plan::PlanSpec& spec, Pricer& pricer,
    const std::function<bool(const plan::PlanSpec&)>& fits);

/// What is solved for the grid and the order of ranks of a spec, with nothing hidden, as a file
/// (solve/problem_file.h). Requires a spec whose batch is divided, and pins without a fault.
std::string searched_problem(const graph::ModelGraphs& model, const plan::PlanSpec& spec,
                             Pricer& pricer);

}  // namespace fourfold::search
