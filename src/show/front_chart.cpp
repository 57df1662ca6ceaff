#include "show/front_chart.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/format.h"
#include "base/units.h"

namespace fourfold::show {
namespace {

using search::PricedPlan;

constexpr int chart_columns = 72, chart_rows = 12;
/// Slower plans are of no interest, and would press the others together.
constexpr double most_times_least = 2;

/// By formula, as not all plans are simulated.
double bytes_of(const PricedPlan& plan) {
  return plan.expected_bytes();
}
double seconds_of(const PricedPlan& plan) {
  return plan.price.step();
}

/// The place of a value among so many, from 0 on.
int place_among(double value, double least, double most, int places) {
  return static_cast<int>(std::lround((value - least) / (most - least) * (places - 1)));
}

}  // namespace

std::vector<std::size_t> front_of(const search::Answer& answer) {
  const std::vector<PricedPlan>& plans = answer.plans;
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const double of_a = seconds_of(plans[a]), of_b = seconds_of(plans[b]);
    return of_a != of_b ? of_a < of_b : bytes_of(plans[a]) < bytes_of(plans[b]);
  });
  std::vector<std::size_t> front;
  for (const std::size_t i : order)
    if (front.empty() || bytes_of(plans[i]) < bytes_of(plans[front.back()])) front.push_back(i);
  return front;
}

std::string front_chart(const search::Answer& answer) {
  std::vector<std::size_t> shown;
  double least_s = 0, most_s = 0, least_bytes = 0, most_bytes = 0;
  for (const PricedPlan& plan : answer.plans)
    least_s = least_s == 0 ? seconds_of(plan) : std::min(least_s, seconds_of(plan));
  for (std::size_t i = 0; i < answer.plans.size(); ++i) {
    const PricedPlan& plan = answer.plans[i];
    if (seconds_of(plan) > most_times_least * least_s) continue;
    least_bytes = shown.empty() ? bytes_of(plan) : std::min(least_bytes, bytes_of(plan));
    most_bytes = std::max(most_bytes, bytes_of(plan));
    most_s = std::max(most_s, seconds_of(plan));
    shown.push_back(i);
  }
  if (shown.size() < 2 || most_s <= least_s || most_bytes <= least_bytes) return "";
  std::vector<std::string> field(chart_rows, std::string(chart_columns, ' '));
  const auto draw = [&](std::size_t i, char letter) {
    const PricedPlan& plan = answer.plans[i];
    const int row = place_among(seconds_of(plan), least_s, most_s, chart_rows),
              column = place_among(bytes_of(plan), least_bytes, most_bytes, chart_columns);
    field[static_cast<std::size_t>(chart_rows - 1 - row)][static_cast<std::size_t>(column)] =
        letter;
  };
  for (const std::size_t i : shown) draw(i, '.');
  for (const std::size_t i : front_of(answer))
    if (seconds_of(answer.plans[i]) <= most_s) draw(i, '*');
  std::string text =
      "A step's time against a rank's memory, by formula; '*': no plan is better in both.\n";
  for (int row = 0; row < chart_rows; ++row) {
    const bool is_end = row == 0 || row == chart_rows - 1;
    const double seconds = row == 0 ? most_s : least_s;
    std::string line = field[static_cast<std::size_t>(row)];
    line.erase(line.find_last_not_of(' ') + 1);
    text +=
        format("{:>9} {}{}\n", is_end ? format_duration(seconds) : "", is_end ? '+' : '|', line);
  }
  const std::string low = format_bytes(static_cast<std::int64_t>(least_bytes)),
                    high = format_bytes(static_cast<std::int64_t>(most_bytes));
  text += format("{:>9} +{}\n{:>11}{}{:>{}}\n", "", std::string(chart_columns, '-'), "", low, high,
                 chart_columns - static_cast<int>(low.size()));
  const std::size_t slower = answer.plans.size() - shown.size();
  if (slower > 0)
    text += format("{} slower than {} not shown.\n",
                   slower == 1 ? "One plan" : format("{} plans", slower),
                   format_duration(most_times_least * least_s) + (slower == 1 ? " is" : " are"));
  return text;
}

}  // namespace fourfold::show
