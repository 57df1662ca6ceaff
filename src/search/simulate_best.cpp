#include "search/simulate_best.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "search/simulate_plan.h"
#include "simulate/simulate.h"

namespace fourfold::search {
namespace {

/// So many more plans are compiled at most for one that fits: closed forms are rarely so far off.
constexpr std::size_t tries_for_each = 2;

/// Puts the `count` best plans by time with what is hidden, and then those of the `count` best by
/// the plain sum, before all others, which stay in their order. Returns how many these are.
std::size_t bring_forward(std::vector<PricedPlan>& plans, std::size_t count) {
  count = std::min(count, plans.size());
  if (count == 0) return 0;
  std::vector<double> sums;
  for (const PricedPlan& plan : plans) sums.push_back(plan.plain_seconds());
  std::ranges::nth_element(sums, sums.begin() + static_cast<std::ptrdiff_t>(count - 1));
  const double most = sums[count - 1];
  const auto others =
      std::stable_partition(plans.begin() + static_cast<std::ptrdiff_t>(count), plans.end(),
                            [&](const PricedPlan& plan) { return plan.plain_seconds() <= most; });
  return static_cast<std::size_t>(others - plans.begin());
}

/// Simulates a plan, or notes that it never ends.
void simulate_one(const Question& question, PricedPlan& plan, double memory_bytes) {
  try {
    plan.simulated = simulate_plan(question, plan.spec, memory_bytes);
  } catch (const simulate::NeverEnds& error) {
    plan.simulated.reset();
    plan.never_ends = error.what();
  }
}

/// Keeps the other plan where its programs fit and are faster, or alone fit or come to their end.
void keep_better(PricedPlan other, PricedPlan& plan) {
  if (!other.simulated) return;
  if (!plan.simulated) {
    plan = std::move(other);
    return;
  }
  const bool fits_better = other.simulated->fits && !plan.simulated->fits;
  const bool fits_as_well = other.simulated->fits == plan.simulated->fits;
  if (fits_better || (fits_as_well && other.simulated->step_s < plan.simulated->step_s))
    plan = std::move(other);
}

/// Simulates the order that is best with what is hidden and the one that is best without, and of a
/// pipeline another schedule, and keeps what is fastest.
void simulate_orders(const Question& question, PricedPlan& plan, double memory_bytes) {
  simulate_one(question, plan, memory_bytes);
  if (plan.plain_order) {
    PricedPlan other = plan;
    set_order(other.spec, plan.plain_order->order);
    other.price = plan.plain_order->price;
    other.linears_s = plan.plain_order->linears_s;
    other.never_ends.clear();
    simulate_one(question, other, memory_bytes);
    keep_better(std::move(other), plan);
  }
  if (plan.other_schedule) {
    PricedPlan other = plan;
    const PricedSchedule was{plan.spec.pipeline.schedule, plan.stages, plan.demand, plan.price};
    other.spec.pipeline.schedule = plan.other_schedule->schedule;
    other.stages = plan.other_schedule->stages;
    other.demand = plan.other_schedule->demand;
    other.price = plan.other_schedule->price;
    other.other_schedule = was;
    other.never_ends.clear();
    simulate_one(question, other, memory_bytes);
    keep_better(std::move(other), plan);
  }
}

/// Takes those of the plans from `begin` to `end` that never end out of the list; how many.
std::size_t set_apart(Answer& answer, std::size_t begin, std::size_t end) {
  const auto first = answer.plans.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = answer.plans.begin() + static_cast<std::ptrdiff_t>(end);
  const auto stuck = std::stable_partition(
      first, last, [](const PricedPlan& plan) { return plan.simulated.has_value(); });
  const auto count = static_cast<std::size_t>(last - stuck);
  answer.with_own_meshes -= std::count_if(
      stuck, last, [](const PricedPlan& plan) { return !plan.spec.pipeline.grids.empty(); });
  answer.with_layouts -= std::count_if(
      stuck, last, [](const PricedPlan& plan) { return plan.spec.layout.has_value(); });
  std::move(stuck, last, std::back_inserter(answer.never_ending));
  answer.plans.erase(stuck, last);
  return count;
}

}  // namespace

void simulate_best(const Question& question, Answer& answer, std::size_t count) {
  require(question.compile != nullptr, "plans that are simulated can be compiled");
  const std::size_t chosen = bring_forward(answer.plans, count);
  const std::size_t most = std::min(chosen + tries_for_each * count, answer.plans.size());
  std::size_t fitting = 0;
  for (std::size_t tried = 0; fitting < count && tried < most;) {
    const std::size_t begin = answer.simulated,
                      more = tried == 0 ? chosen : std::min(count - fitting, most - tried);
    for_each_on_all_cores(more, [&](std::size_t i) {
      simulate_orders(question, answer.plans[begin + i], answer.memory_bytes);
    });
    tried += more;
    answer.simulated += more - set_apart(answer, begin, begin + more);
    for (std::size_t i = begin; i < answer.simulated; ++i)
      fitting += answer.plans[i].simulated->fits ? 1 : 0;
  }
  const auto first = answer.plans.begin();
  const auto end = first + static_cast<std::ptrdiff_t>(answer.simulated);
  std::stable_sort(first, end, [](const PricedPlan& a, const PricedPlan& b) {
    if (a.simulated->fits != b.simulated->fits) return a.simulated->fits;
    return a.simulated->step_s < b.simulated->step_s;
  });
}

}  // namespace fourfold::search
