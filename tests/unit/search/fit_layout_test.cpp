// Layouts within a limit of memory: as few parameters are cut as will do, the largest ones first.
#include "search/fit_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "unit/search/sought.h"

namespace fourfold::search {
namespace {

/// A large batch, for which nothing is cut but samples as long as memory has room.
struct Limited {
  Limited() : sought(wanted()) {
    // Moments lie as their parameters.
    sought.setting.hidden_share = 0;
  }
  static Wanted wanted() {
    Wanted wanted = gpt_on({.data = 4}, 64);
    wanted.setup.gpt.vocab_size = 4096;
    return wanted;
  }
  double need(const plan::Layout& layout) const { return sought.demand(layout).memory.all(); }
  FitOutcome within(double bytes) {
    return choose_layout_that_fits(
        sought.train(), sought.start, sought.setting, sought.pricer, solve::usual_solver,
        [&](const plan::Layout& layout) { return need(layout) <= bytes; });
  }
  Sought sought;
};

/// Elements of the parameters that a layout cuts somewhere, and has whole, by name.
std::vector<std::string> cut_in(const Limited& limited, const plan::Layout& layout) {
  std::vector<std::string> names;
  for (const graph::Value& value : limited.sought.train().values)
    if (value.role == graph::ValueRole::parameter &&
        !layout.parameters.at(value.name).rest.replicated())
      names.push_back(value.name);
  return names;
}

TEST(FitLayout, asks_once_where_all_fits) {
  Limited limited;
  const auto outcome = limited.within(1e18);
  const auto& fitted = std::get<FittedLayout>(outcome);
  EXPECT_TRUE(fitted.cut.empty());
  EXPECT_EQ(fitted.asked, 1U);
  EXPECT_EQ(fitted.chosen.layout, limited.sought.chosen().layout);
}

TEST(FitLayout, cuts_only_the_largest_tensors_where_memory_is_tight) {
  Limited limited;
  const plan::Layout free = limited.sought.chosen().layout;
  const std::vector<std::string> cut_free = cut_in(limited, free);
  const auto nothing = limited.within(1000);
  const double least = std::get<NothingFits>(nothing).bytes;
  const double limit = limited.need(free) - 0.3 * (limited.need(free) - least);
  const auto outcome = limited.within(limit);
  const auto& fitted = std::get<FittedLayout>(outcome);
  EXPECT_LE(limited.need(fitted.chosen.layout), limit);
  ASSERT_FALSE(fitted.cut.empty());
  EXPECT_LE(fitted.cut.size(), 8U);
  EXPECT_EQ(fitted.cut_most, 0U);
  EXPECT_EQ(fitted.cut.front(), "wte.weight");
  for (const std::string& name : cut_in(limited, fitted.chosen.layout))
    EXPECT_TRUE(std::ranges::count(fitted.cut, name) + std::ranges::count(cut_free, name) > 0)
        << name;
  // One fewer does not do.
  limited.sought.setting.cut.clear();
  for (std::size_t i = 0; i + 1 < fitted.cut.size(); ++i)
    limited.sought.setting.cut[fitted.cut[i]] = Cutting::some;
  EXPECT_GT(limited.need(limited.sought.chosen().layout), limit);
}

TEST(FitLayout, tells_what_would_be_needed_where_nothing_fits) {
  Limited limited;
  const auto outcome = limited.within(1000);
  const auto& nothing = std::get<NothingFits>(outcome);
  EXPECT_DOUBLE_EQ(nothing.bytes, limited.need(nothing.least.layout));
  EXPECT_GT(nothing.cut, 20U);
  ASSERT_EQ(nothing.largest.size(), 5U);
  EXPECT_TRUE(std::ranges::is_sorted(nothing.largest, std::ranges::greater(), &LargeTensor::bytes));
  // What it says would do does.
  EXPECT_TRUE(std::holds_alternative<FittedLayout>(limited.within(nothing.bytes)));
}

/// An axis that is left alone may cut with padding what no other choice of it divides.
TEST(FitLayout, cuts_parameters_that_another_axis_cuts_with_padding) {
  Sought sought(unet_on({.x = 2, .z = 2, .data = 2}));
  for (const graph::Value& value : sought.train().values)
    if (value.role == graph::ValueRole::parameter) sought.setting.cut[value.name] = Cutting::some;
  const LayoutOutcome outcome = choose_layout(sought.train(), sought.start, sought.setting,
                                              sought.pricer, solve::usual_solver);
  const auto& chosen = std::get<ChosenLayout>(outcome);
  for (const graph::Value& value : sought.train().values)
    if (value.role == graph::ValueRole::parameter && value.shape.elements() % 2 == 0) {
      EXPECT_FALSE(chosen.layout.parameters.at(value.name).rest.replicated()) << value.name;
    }
}

}  // namespace
}  // namespace fourfold::search
