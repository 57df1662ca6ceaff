#include "search/explain.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/format.h"
#include "base/units.h"
#include "search/searched_plans.h"

namespace fourfold::search {

using compile::Purpose;

std::string_view purpose_word(Purpose purpose) {
  constexpr std::array<std::string_view, 3> words = {"activations", "weights", "gradients"};
  return words[static_cast<std::size_t>(purpose)];
}

namespace {

void sort_for_a(std::vector<Spending>& all) {
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const Spending& one) { return one.b - one.a; });
}

std::string cost_name(const simulate::Cost& cost) {
  return (cost.is_exposed ? "waiting for " : "") + cost.what;
}

}  // namespace

std::vector<Spending> spendings(const Price& a, const Price& b) {
  std::vector<Spending> all = {
      {"compute", a.compute() + a.slower_by, b.compute() + b.slower_by},
      {"weights", a.weights - a.hidden_weights, b.weights - b.hidden_weights},
      {"gradients", a.gradients - a.hidden_gradients, b.gradients - b.hidden_gradients},
      {"activations", a.activations - a.hidden_activations, b.activations - b.hidden_activations}};
  if (a.pipeline != 0 || b.pipeline != 0)
    all.push_back({"waiting for other stages", a.pipeline, b.pipeline});
  sort_for_a(all);
  return all;
}

std::vector<Spending> spendings(const PricedPlan& a, const PricedPlan& b) {
  if (!a.simulated || !b.simulated) return spendings(a.price, b.price);
  std::vector<Spending> all;
  const auto add = [&](const simulate::Cost& cost, double Spending::* side) {
    const std::string name = cost_name(cost);
    auto place = std::ranges::find(all, name, &Spending::name);
    if (place == all.end()) place = all.insert(all.end(), {name, 0, 0});
    (*place).*side += cost.seconds;
  };
  for (const simulate::Cost& cost : a.simulated->costs) add(cost, &Spending::a);
  for (const simulate::Cost& cost : b.simulated->costs) add(cost, &Spending::b);
  sort_for_a(all);
  return all;
}

double seconds_beside(const PricedPlan& a, const PricedPlan& b) {
  return a.simulated && b.simulated ? a.simulated->step_s : a.price.step();
}

std::string grid_text(const plan::Grid& grid) {
  return format("x {} y {} z {} data {}", grid.x, grid.y, grid.z, grid.data);
}

std::string shape_text(const plan::PlanSpec& spec) {
  const std::int64_t stages = spec.pipeline.stages;
  if (stages == 1)
    return grid_text(spec.grid) + (spec.layout ? format(", layout {}", layout_word(spec)) : "");
  if (!spec.pipeline.grids.empty()) {
    std::string text = format("{} stages ({}) of", stages, to_string(spec.pipeline.schedule));
    for (std::size_t i = 0; i < spec.pipeline.grids.size(); ++i)
      text += format("{} {} ({})", i == 0 ? "" : ",", grid_text(spec.pipeline.grids[i]),
                     counted(spec.pipeline.layers.at(i), "block"));
    return text;
  }
  return format("{} stages ({}) of {}", stages, to_string(spec.pipeline.schedule),
                grid_text(spec.grid));
}

std::string heaviest_traffic(const PricedPlan& plan, const std::string& spending) {
  for (const TrafficPrice& entry : plan.price.traffic) {
    if (purpose_word(entry.purpose) != spending) continue;
    std::string axes;
    for (const AxisId axis : entry.axes)
      axes += (axes.empty() ? "" : "-") + plan.mesh.axes[axis.index()].name;
    return format("{} along {}", to_string(entry.kind), axes);
  }
  return "";
}

namespace {

/// A smaller share of a step is rounding.
constexpr double nothing = 1e-9;

std::string seconds_text(double seconds) {
  return seconds > 0 ? format_duration(seconds) : "nothing";
}

}  // namespace

std::string why_faster(const PricedPlan& a, const std::string& name_a, const PricedPlan& b,
                       const std::string& name_b) {
  const double all_of_b = seconds_beside(b, a), gained = all_of_b - seconds_beside(a, b);
  if (gained <= nothing * all_of_b) return format("{} and {} take the same time", name_a, name_b);
  const std::vector<Spending> all = spendings(a, b);
  const Spending &best = all.front(), &worst = all.back();
  std::string text =
      format("{} takes {} less than {}: {} instead of {} on {}", name_a, format_duration(gained),
             name_b, seconds_text(best.a), seconds_text(best.b), best.name);
  const std::string of_a = heaviest_traffic(a, best.name), of_b = heaviest_traffic(b, best.name);
  if (!of_b.empty())
    text += of_a == of_b || of_a.empty() ? format(", most of it {}", of_b)
                                         : format(", where most is {} instead of {}", of_a, of_b);
  if (worst.a - worst.b > nothing * all_of_b)
    text +=
        format("; against it speak {} more on {}", format_duration(worst.a - worst.b), worst.name);
  return text;
}

std::string excess(const PricedPlan& a, const PricedPlan& b) {
  const double all_of_b = seconds_beside(b, a), more = all_of_b - seconds_beside(a, b);
  if (more <= nothing * all_of_b) return "";
  const Spending most = spendings(a, b).front();
  const std::string traffic = heaviest_traffic(b, most.name);
  return format("+{}: {}{}", format_duration(more), most.name,
                traffic.empty() ? "" : ", " + traffic);
}

}  // namespace fourfold::search
