#include "search/choose_layout.h"

#include <algorithm>
#include <utility>

#include "solve/dual_bound.h"
#include "solve/problem_file.h"
#include "solve/prune.h"

namespace fourfold::search {
namespace {

constexpr std::size_t axes_together = 2;
/// With more, an op has too many ways for a problem of all at once.
constexpr std::size_t axes_bounded = 3;
constexpr std::size_t bound_sweeps = 200;
constexpr double gain_of_a_round = 1e-9;  // of the cost: rounding gains less

/// No assignment of the problem costs less.
double relaxation_of(const solve::Problem& problem) {
  const auto pruned = solve::prune(problem);
  const auto* fewer = std::get_if<solve::Pruned>(&pruned);
  return fewer == nullptr ? 0 : solve::raise_bound(fewer->problem, bound_sweeps).bound;
}

}  // namespace

LayoutOutcome choose_layout(const graph::Graph& train, const plan::Layout& start,
                            LayoutSetting setting, Pricer& pricer, std::string_view solver,
                            const solve::Limits& limits) {
  const auto pinned = plan::pinned_shardings(train, *setting.mesh, setting.pins);
  if (const auto* infeasible = std::get_if<plan::Infeasible>(&pinned)) return *infeasible;
  const std::vector<AxisId> axes = axes_to_cut(*setting.mesh, start.samples);
  ChosenLayout best{start, {}, 0, setting.hidden_share};
  std::optional<double> bound;
  for (bool gains = true, is_first_round = true; gains; is_first_round = false) {
    gains = false;
    for (std::size_t i = 0; i == 0 || i < axes.size(); i += axes_together) {
      setting.open.assign(
          axes.begin() + static_cast<std::ptrdiff_t>(i),
          axes.begin() + static_cast<std::ptrdiff_t>(std::min(i + axes_together, axes.size())));
      const LayoutProblem problem(train, best.layout, setting, pricer);
      solve::Outcome outcome = solve::solve(problem.problem(), solver, limits);
      if (auto* refused = std::get_if<solve::Refused>(&outcome)) return std::move(*refused);
      auto& solution = std::get<solve::Solution>(outcome);
      ++best.solved;
      if (setting.counts) best.numbers = solve::numbers_of(problem.problem());
      if (setting.bounds && axes.size() <= axes_together) bound = relaxation_of(problem.problem());
      // The first round may have to leave what pins and memory do not allow.
      if (!is_first_round && solution.cost >= (1 - gain_of_a_round) * best.solution.cost) continue;
      gains = axes.size() > axes_together;
      best.layout = problem.layout(solution.choices);
      best.solution = std::move(solution);
    }
  }
  if (setting.bounds && axes.size() > axes_together && axes.size() <= axes_bounded) {
    setting.open = axes;
    bound = relaxation_of(LayoutProblem(train, start, setting, pricer).problem());
  }
  if (bound) best.lower_bound = std::min(*bound, best.solution.cost);
  if (auto problems =
          plan::left_whole(train, std::get<plan::PinnedShardings>(pinned), best.layout, {});
      !problems.empty())
    return plan::Infeasible{std::move(problems)};
  return best;
}

std::variant<std::vector<ChosenLayout>, solve::Refused, plan::Infeasible> choose_layouts(
    const graph::Graph& train, const plan::Layout& start, const LayoutSetting& setting,
    Pricer& pricer, std::string_view solver, const solve::Limits& limits,
    std::span<const double> hidden_shares) {
  std::vector<ChosenLayout> layouts;
  for (const double share : hidden_shares) {
    LayoutSetting one = setting;
    one.hidden_share = share;
    LayoutOutcome outcome = choose_layout(train, start, std::move(one), pricer, solver, limits);
    if (auto* refused = std::get_if<solve::Refused>(&outcome)) return std::move(*refused);
    if (auto* infeasible = std::get_if<plan::Infeasible>(&outcome)) return std::move(*infeasible);
    auto& chosen = std::get<ChosenLayout>(outcome);
    if (std::ranges::find(layouts, chosen.layout, &ChosenLayout::layout) == layouts.end())
      layouts.push_back(std::move(chosen));
  }
  return layouts;
}

std::string layout_problem_text(const graph::Graph& train, const plan::Layout& start,
                                LayoutSetting setting, Pricer& pricer) {
  if (setting.open.empty()) setting.open = axes_to_cut(*setting.mesh, start.samples);
  return solve::problem_text(LayoutProblem(train, start, std::move(setting), pricer).problem());
}

}  // namespace fourfold::search
