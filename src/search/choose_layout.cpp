#include "search/choose_layout.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/error.h"
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
  // By the first axis of a problem: the layout in which it has nothing more to gain.
  std::map<std::size_t, plan::Layout> done;
  for (bool gains = true, is_first_round = true; gains; is_first_round = false) {
    gains = false;
    for (std::size_t i = 0; i == 0 || i < axes.size(); i += axes_together) {
      if (const auto last = done.find(i); last != done.end() && last->second == best.layout)
        continue;
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
      if (is_first_round || solution.cost < (1 - gain_of_a_round) * best.solution.cost) {
        gains = axes.size() > axes_together;
        best.layout = problem.layout(solution.choices);
        best.solution = std::move(solution);
      }
      done.insert_or_assign(i, best.layout);
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

Demand demand_of_layout(const graph::Graph& train, const plan::Layout& layout,
                        const LayoutSetting& setting) {
  plan::PersistentShardings persistent = plan::persistent_shardings(train, layout);
  auto derived = plan::derive_shardings(train, *setting.mesh, layout, persistent);
  require(std::holds_alternative<plan::GraphShardings>(derived), "the layout is legal");
  plan::Plan plan;
  plan.meshes = {*setting.mesh};
  plan.batching = setting.batching;
  plan.compute = setting.compute;
  plan.overlap = setting.overlap;
  plan.checkpointing = setting.checkpointing;
  plan.cached_gathers = setting.cached_gathers;
  plan.bucket_bytes = setting.bucket_bytes;
  plan.graphs = {std::get<plan::GraphShardings>(std::move(derived))};
  return demand_of(train, plan);
}

namespace {

/// Searches for one share after another.
class ShareSearch {
 public:
  ShareSearch(const graph::Graph& train, const plan::Layout& start, const LayoutSetting& setting,
              Pricer& pricer, std::string_view solver, const solve::Limits& limits)
      : train_(train),
        start_(start),
        setting_(setting),
        pricer_(pricer),
        solver_(solver),
        limits_(limits) {}

  std::variant<std::vector<ChosenLayout>, solve::Refused, plan::Infeasible> run() {
    for (const double share : usual_hidden_shares)
      if (!look_at(share)) return std::move(*failure_);
    const std::size_t axes = axes_to_cut(*setting_.mesh, start_.samples).size();
    const int rounds = axes <= axes_together ? 2 : axes == axes_together + 1 ? 1 : 0;
    for (int round = 0; round < rounds; ++round) {
      const std::vector<double> between = shares_beside_best();
      for (const double share : between)
        if (!look_at(share)) return std::move(*failure_);
    }
    std::vector<ChosenLayout> layouts;
    for (auto& [share, tried] : tried_)
      if (std::ranges::find(layouts, tried.chosen.layout, &ChosenLayout::layout) == layouts.end())
        layouts.push_back(std::move(tried.chosen));
    return layouts;
  }

 private:
  struct Tried {
    ChosenLayout chosen;
    double seconds = 0;  // with as much hidden as there is computation
  };

  bool look_at(double share) {
    LayoutSetting one = setting_;
    one.hidden_share = share;
    LayoutOutcome outcome =
        choose_layout(train_, start_, std::move(one), pricer_, solver_, limits_);
    if (auto* refused = std::get_if<solve::Refused>(&outcome)) failure_ = std::move(*refused);
    if (auto* bad = std::get_if<plan::Infeasible>(&outcome)) failure_ = std::move(*bad);
    if (failure_) return false;
    Tried tried{std::get<ChosenLayout>(std::move(outcome)), 0};
    const Demand demand = demand_of_layout(train_, tried.chosen.layout, setting_);
    tried.seconds = pricer_.price(demand, setting_.groups).step();
    tried_.emplace(share, std::move(tried));
    return true;
  }

  /// Half-way from the share that is best so far to its neighbours. A layout that is best for two
  /// shares is best between them.
  std::vector<double> shares_beside_best() const {
    const auto best =
        std::ranges::min_element(tried_, {}, [](const auto& one) { return one.second.seconds; });
    std::vector<double> shares;
    const auto add = [&](const auto& one, const auto& other) {
      if (one->second.chosen.layout != other->second.chosen.layout)
        shares.push_back((one->first + other->first) / 2);
    };
    if (best != tried_.begin()) add(std::prev(best), best);
    if (std::next(best) != tried_.end()) add(best, std::next(best));
    return shares;
  }

  const graph::Graph& train_;
  const plan::Layout& start_;
  const LayoutSetting& setting_;
  Pricer& pricer_;
  std::string_view solver_;
  const solve::Limits& limits_;
  std::map<double, Tried> tried_;  // by share
  std::optional<std::variant<std::vector<ChosenLayout>, solve::Refused, plan::Infeasible>> failure_;
};

}  // namespace

std::variant<std::vector<ChosenLayout>, solve::Refused, plan::Infeasible> choose_layouts(
    const graph::Graph& train, const plan::Layout& start, const LayoutSetting& setting,
    Pricer& pricer, std::string_view solver, const solve::Limits& limits) {
  return ShareSearch(train, start, setting, pricer, solver, limits).run();
}

std::string layout_problem_text(const graph::Graph& train, const plan::Layout& start,
                                LayoutSetting setting, Pricer& pricer) {
  if (setting.open.empty()) setting.open = axes_to_cut(*setting.mesh, start.samples);
  return solve::problem_text(LayoutProblem(train, start, std::move(setting), pricer).problem());
}

}  // namespace fourfold::search
