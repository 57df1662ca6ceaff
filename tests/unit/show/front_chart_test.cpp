// The chart of what speed costs in memory.
#include "show/front_chart.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"

namespace fourfold::show {
namespace {

search::PricedPlan plan_of(double seconds, double bytes) {
  search::PricedPlan plan;
  plan.price.products = seconds;
  plan.demand.memory.parameters = bytes;
  return plan;
}

TEST(FrontChart, plans_that_no_other_one_beats_in_both_are_the_front) {
  search::Answer answer;
  answer.plans = {plan_of(1, 8e9),   plan_of(1.2, 9e9), plan_of(1.5, 4e9),
                  plan_of(1.6, 5e9), plan_of(1.9, 2e9), plan_of(3, 1e9)};
  EXPECT_EQ(front_of(answer), (std::vector<std::size_t>{0, 2, 4, 5}));
  const std::string chart = front_chart(answer);
  const std::string drawn = chart.substr(chart.find('\n'));
  EXPECT_EQ(std::ranges::count(drawn, '*'), 3) << chart << "the slowest is beyond twice the least";
  EXPECT_NE(chart.find("One plan slower than 2.00 s is not shown."), std::string::npos) << chart;
  for (const std::string& line : split(chart, '\n')) EXPECT_LE(line.size(), 100U);
  answer.plans.resize(1);
  EXPECT_TRUE(front_chart(answer).empty());
}

}  // namespace
}  // namespace fourfold::show
