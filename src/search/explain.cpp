#include "search/explain.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/format.h"
#include "base/units.h"

namespace fourfold::search {

using compile::Purpose;

std::string_view purpose_word(Purpose purpose) {
  constexpr std::array<std::string_view, 3> words = {"activations", "weights", "gradients"};
  return words[static_cast<std::size_t>(purpose)];
}

std::vector<Spending> spendings(const Price& a, const Price& b) {
  std::vector<Spending> all = {{"compute", a.compute(), b.compute()},
                               {"weights", a.weights, b.weights},
                               {"gradients", a.gradients, b.gradients},
                               {"activations", a.activations, b.activations}};
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const Spending& one) { return one.b - one.a; });
  return all;
}

std::string grid_text(const plan::Grid& grid) {
  return format("x {} y {} z {} data {}", grid.x, grid.y, grid.z, grid.data.value_or(1));
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

std::string seconds_text(double seconds) {
  return seconds > 0 ? format_duration(seconds) : "nothing";
}

}  // namespace

std::string why_faster(const PricedPlan& a, const std::string& name_a, const PricedPlan& b,
                       const std::string& name_b) {
  const double gained = b.price.all() - a.price.all();
  constexpr double nothing = 1e-9;
  if (gained <= nothing * b.price.all())
    return format("{} and {} take the same time", name_a, name_b);
  const std::vector<Spending> all = spendings(a.price, b.price);
  const Spending &best = all.front(), &worst = all.back();
  std::string text =
      format("{} takes {} less than {}: {} instead of {} on {}", name_a, format_duration(gained),
             name_b, seconds_text(best.a), seconds_text(best.b), best.name);
  const std::string of_a = heaviest_traffic(a, best.name), of_b = heaviest_traffic(b, best.name);
  if (!of_b.empty())
    text += of_a == of_b || of_a.empty() ? format(", most of it {}", of_b)
                                         : format(", where most is {} instead of {}", of_a, of_b);
  if (worst.a - worst.b > nothing * b.price.all())
    text +=
        format("; against it speak {} more on {}", format_duration(worst.a - worst.b), worst.name);
  return text;
}

}  // namespace fourfold::search
