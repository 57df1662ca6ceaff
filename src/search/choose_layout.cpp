#include "search/choose_layout.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace fourfold::search {

std::variant<ChosenLayout, solve::Refused> choose_layout(const graph::Graph& train,
                                                         const plan::Layout& start,
                                                         LayoutSetting setting, Pricer& pricer,
                                                         std::string_view solver,
                                                         const solve::Limits& limits) {
  constexpr std::size_t together = 2;
  constexpr double least_gain = 1e-9;  // of the cost: rounding gains less
  const std::vector<AxisId> axes = axes_to_cut(*setting.mesh, start.samples);
  ChosenLayout best{start, {}, 0};
  for (bool gains = true; gains;) {
    gains = false;
    for (std::size_t i = 0; i == 0 || i < axes.size(); i += together) {
      setting.open.assign(
          axes.begin() + static_cast<std::ptrdiff_t>(i),
          axes.begin() + static_cast<std::ptrdiff_t>(std::min(i + together, axes.size())));
      const LayoutProblem problem(train, best.layout, setting, pricer);
      solve::Outcome outcome = solve::solve(problem.problem(), solver, limits);
      if (auto* refused = std::get_if<solve::Refused>(&outcome)) return std::move(*refused);
      auto& solution = std::get<solve::Solution>(outcome);
      const bool is_first = best.solved++ == 0;
      if (!is_first && solution.cost >= (1 - least_gain) * best.solution.cost) continue;
      gains = axes.size() > together;
      best.layout = problem.layout(solution.choices);
      best.solution = std::move(solution);
    }
  }
  return best;
}

}  // namespace fourfold::search
