// What users pin: a search obeys it, and says of pins with a fault what it is.
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "unit/search/sought.h"

namespace fourfold::search {
namespace {

plan::Pin pin(const std::string& pattern, std::vector<plan::PinnedDim> dims) {
  return {pattern, std::move(dims)};
}
plan::PinnedDim any(std::vector<std::string> axes = {}) {
  return {std::nullopt, std::move(axes)};
}

/// How the plan of a layout keeps a value.
op::Sharding kept(const Sought& sought, const plan::Layout& layout, const std::string& name) {
  return sought.plan(layout)
      .of(op::ProgramKind::train)
      .values[sought.train().find(name).value().index()];
}

TEST(PinnedLayouts, of_parameters_and_activations_are_obeyed) {
  const std::string value = "blocks.0.mlp.up", weight = "blocks.1.mlp.down.weight";
  Sought sought(gpt_on({.x = 2, .data = 2}, 16));
  const plan::Layout free = sought.chosen().layout;
  const std::vector<op::Cuts> wanted = {{{sought.data(), std::nullopt}},
                                        {{sought.x(), std::nullopt}},
                                        {}},
                              rows = {{{sought.x(), std::nullopt}}, {}};
  ASSERT_NE(kept(sought, free, value).dims, wanted);
  ASSERT_NE(free.parameters.at(weight).rest.dims, rows);
  sought.setting.pins = {pin(value, {any({"data"}), any({"x"}), any()}),
                         pin("blocks.1.*.down.weight", {any({"x"}), any()})};
  const ChosenLayout pinned = sought.chosen();
  EXPECT_EQ(kept(sought, pinned.layout, value).dims, wanted);
  EXPECT_EQ(pinned.layout.parameters.at(weight).rest.dims, rows);
  EXPECT_EQ(kept(sought, pinned.layout, weight).dims, rows);
  const double found = sought.seconds_of(pinned.layout);
  EXPECT_NEAR(found, pinned.solution.cost, sought.shared_seconds(pinned.layout));
}

TEST(PinnedLayouts, of_one_layer_leave_layers_alike_but_for_what_they_say) {
  Sought sought(gpt_on({.data = 4}, 16));
  sought.setting.layers_alike = true;
  const std::string weight = "mlp.down.weight";
  ASSERT_TRUE(sought.chosen().layout.parameters.at("blocks.0." + weight).rest.replicated());
  sought.setting.pins = {pin("blocks.1." + weight, {any({"data"}), any()})};
  const plan::Layout layout = sought.chosen().layout;
  EXPECT_TRUE(layout.parameters.at("blocks.0." + weight).rest.replicated());
  EXPECT_FALSE(layout.parameters.at("blocks.1." + weight).rest.replicated());
}

TEST(PinnedLayouts, never_whole_cuts_somewhere) {
  Sought sought(gpt_on({.data = 4}, 64));
  const std::string weight = "blocks.0.mlp.up.weight";
  ASSERT_TRUE(sought.chosen().layout.parameters.at(weight).rest.replicated());
  sought.setting.pins = {{"blocks.0.mlp.up.*", {}, true}, {"blocks.0.mlp.down", {}, true}};
  const plan::Layout layout = sought.chosen().layout;
  EXPECT_FALSE(layout.parameters.at(weight).rest.replicated());
  EXPECT_FALSE(kept(sought, layout, "blocks.0.mlp.down").replicated());
}

TEST(PinnedLayouts, that_no_axis_can_obey_are_told) {
  Sought sought(vgg_on({.data = 3}));
  sought.setting.pins = {{"head.bias", {}, true}};
  const auto outcome = sought.outcome();
  const auto& bad = std::get<plan::BadPin>(std::get<plan::Infeasible>(outcome).problems.at(0));
  EXPECT_EQ(bad.why, plan::BadPin::Why::whole);
  EXPECT_EQ(bad.tensor, "head.bias");
}

TEST(PinnedLayouts, are_not_searched_for_where_a_pin_has_a_fault) {
  Sought sought(gpt_on({.x = 2, .data = 2}));
  sought.setting.pins = {pin("blocks.9.up", {any()})};
  const auto unused = sought.outcome();
  EXPECT_EQ(std::get<plan::BadPin>(std::get<plan::Infeasible>(unused).problems.at(0)).why,
            plan::BadPin::Why::unused);
  Sought uneven(vgg_on({.data = 3}));
  uneven.setting.pins = {pin("head", {any(), any({"data"})})};
  const auto outcome = uneven.outcome();
  const auto& bad = std::get<plan::BadPin>(std::get<plan::Infeasible>(outcome).problems.at(0));
  EXPECT_EQ(bad.why, plan::BadPin::Why::indivisible);
  EXPECT_EQ(bad.size, 64);
}

}  // namespace
}  // namespace fourfold::search
