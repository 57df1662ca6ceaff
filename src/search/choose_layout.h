// The layout of a training graph on one mesh that takes least: which axis cuts which factor of
// every op, and how values are kept (Zhang et al. 2023, "Rhino", section 4). Not what a layout
// takes (layout_problem.h), nor which mesh is best (rank_grids.h), nor whether memory has room for
// it (fit_layout.h).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "search/demand.h"
#include "search/layout_problem.h"
#include "solve/problem_numbers.h"
#include "solve/solvers.h"

namespace fourfold::search {

struct ChosenLayout {
  plan::Layout layout;
  solve::Solution solution;  // of the problem that was solved last with a gain
  std::size_t solved = 0;    // so many problems
  double hidden_share = 0;   // that it was chosen for
  /// Seconds that no layout takes less than, at these prices: from the linear relaxation over all
  /// axes at once. Where the setting asks for it, and there are three axes at most.
  std::optional<double> lower_bound = std::nullopt;
  /// What the problem that was solved last is like. Where the setting asks for it.
  std::optional<solve::ProblemNumbers> numbers = std::nullopt;
};

/// Refused where a problem is too large for the solver; Infeasible where pins have a fault.
using LayoutOutcome = std::variant<ChosenLayout, solve::Refused, plan::Infeasible>;

/// Two axes are solved together. Of more, two after two, each on the shapes that the others leave,
/// from the start on, and then each again until nothing gets cheaper. `setting.open` is not looked
/// at. Equal questions have equal answers.
LayoutOutcome choose_layout(const graph::Graph& train, const plan::Layout& start,
                            LayoutSetting setting, Pricer& pricer, std::string_view solver,
                            const solve::Limits& limits = {});

/// How much of what may run beside computation is taken to cost nothing, to begin with.
inline constexpr std::array<double, 3> usual_hidden_shares = {0, 0.5, 1};

/// What a rank does in a step with a layout, which is legal.
Demand demand_of_layout(const graph::Graph& train, const plan::Layout& layout,
                        const LayoutSetting& setting);

/// The layouts that are chosen for the usual shares, and for some in the neighbourhood of the one
/// whose layout takes least where as much is hidden as there is computation (price.h), fewer on
/// more axes, where each takes several problems: each layout once, for whoever then simulates them.
/// Their costs are not comparable with each other.
std::variant<std::vector<ChosenLayout>, solve::Refused, plan::Infeasible> choose_layouts(
    const graph::Graph& train, const plan::Layout& start, const LayoutSetting& setting,
    Pricer& pricer, std::string_view solver, const solve::Limits& limits = {});

/// The problem of a graph as a file (solve/problem_file.h), in which these axes are open; all,
/// where the setting names none.
std::string layout_problem_text(const graph::Graph& train, const plan::Layout& start,
                                LayoutSetting setting, Pricer& pricer);

}  // namespace fourfold::search
