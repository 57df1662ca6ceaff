// The layout of a training graph on one mesh that takes least: which axis cuts which factor of
// every op, and how values are kept (Zhang et al. 2023, "Rhino", section 4). Not what a layout
// takes (layout_problem.h), nor which mesh is best (rank_grids.h).
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>

#include "search/layout_problem.h"
#include "solve/solvers.h"

namespace fourfold::search {

struct ChosenLayout {
  plan::Layout layout;
  solve::Solution solution;  // of the problem that was solved last
  std::size_t solved = 0;    // so many problems
};

/// Two axes are solved together. Of more, two after two, each on the shapes that the others leave,
/// from the start on, and then each again until nothing gets cheaper. `setting.open` is not looked
/// at. Equal questions have equal answers. Refused where a problem is too large for the solver.
std::variant<ChosenLayout, solve::Refused> choose_layout(const graph::Graph& train,
                                                         const plan::Layout& start,
                                                         LayoutSetting setting, Pricer& pricer,
                                                         std::string_view solver,
                                                         const solve::Limits& limits = {});

}  // namespace fourfold::search
