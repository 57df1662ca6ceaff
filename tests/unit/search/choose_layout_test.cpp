// Layouts that are searched: what the problem says they take is what the demand of their plan says,
// and no strategy's takes less.
#include "search/choose_layout.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "base/format.h"
#include "solve/problem_file.h"
#include "unit/search/sought.h"

namespace fourfold::search {
namespace {

class ChooseLayout : public testing::TestWithParam<Wanted> {};

TEST_P(ChooseLayout, takes_what_the_problem_says_and_no_more_than_the_strategy) {
  Sought sought(GetParam());
  const ChosenLayout chosen = sought.chosen();
  const solve::Solution& solution = chosen.solution;
  const double found = sought.seconds_of(chosen.layout);
  const double strategy = sought.seconds_of(sought.start);
  std::printf("%s, %zu nodes, width %zu: cost %.4f ms, demand %.4f ms, strategy %.4f ms\n",
              GetParam().name.c_str(), solution.statistics.nodes,
              solution.statistics.width.value_or(0), 1e3 * solution.cost, 1e3 * found,
              1e3 * strategy);
  const double shared = sought.shared_seconds(chosen.layout);
  EXPECT_NEAR(found, solution.cost, shared) << "but for what tensors share at the end";
  EXPECT_LE(found, 1.01 * strategy);
}

INSTANTIATE_TEST_SUITE_P(Of, ChooseLayout,
                         testing::Values(gpt_on({.x = 2}), gpt_on({.data = 2}), gpt_on({.z = 4}),
                                         gpt_on({.x = 2, .data = 2}), vgg_on({.data = 2}),
                                         vgg_on({.x = 2}), vgg_on({.x = 2, .z = 2}),
                                         unet_on({.data = 2}), unet_on({.x = 2})),
                         [](const auto& one) {
                           return one.param.name + std::to_string(one.index);
                         });

TEST(ChosenLayouts, cost_what_is_computed_again_and_gathered_for_it) {
  for (const plan::Grid& grid : {plan::Grid{.x = 2}, {.z = 4}, {.x = 2, .data = 2}})
    for (const bool keeps_products : {false, true}) {
      Sought sought(gpt_on(grid));
      const double once = sought.chosen().solution.cost;
      sought.setting.checkpointing = {.layers = 1, .keeps_products = keeps_products};
      const ChosenLayout chosen = sought.chosen();
      const double found =
          sought.pricer
              .price(demand_of_layout(sought.train(), chosen.layout, sought.setting),
                     sought.setting.groups)
              .all();
      std::printf("%s: cost %.4f ms, demand %.4f ms, %.4f ms without repetition\n",
                  keeps_products ? "selective" : "full", 1e3 * chosen.solution.cost, 1e3 * found,
                  1e3 * once);
      EXPECT_GT(found, once);
      EXPECT_LE(found, chosen.solution.cost + sought.shared_seconds(chosen.layout));
      // What is computed again may share a conversion with the backward pass.
      EXPECT_NEAR(found, chosen.solution.cost, 0.05 * found);
    }
}

/// What is sent of activations, in calls of a micro-batch.
std::map<std::string, double> sent_of_activations(Sought& sought) {
  std::map<std::string, double> calls;
  for (const auto& [key, sent] : sought.demand(sought.chosen().layout).sent)
    if (key.purpose == compile::Purpose::activations && !key.is_at_end)
      calls[format("{} of {}{}", to_string(key.kind), key.label,
                   key.is_hideable ? ", backward" : "")] +=
          sent.calls / static_cast<double>(sought.batching.accumulation);
  return calls;
}

using Calls = std::map<std::string, double>;

TEST(ChosenLayouts, of_large_batches_are_data_parallel) {
  Sought gpt(gpt_on({.data = 4}, 64)), unet(unet_on({.data = 2}));
  EXPECT_EQ(sent_of_activations(gpt), Calls());
  EXPECT_EQ(sent_of_activations(unet), Calls());
}

TEST(ChosenLayouts, of_large_weights_cut_columns_and_rows) {
  Wanted wanted = gpt_on({.x = 4}, 1);
  wanted.setup.gpt.hidden_size = 2048;
  wanted.setup.gpt.ffn_hidden_size = 8192;
  wanted.setup.plan.seq_length = 32;
  Sought searched(wanted);
  // Two in each of two blocks, each way.
  EXPECT_EQ(sent_of_activations(searched),
            Calls({{"all_reduce of linear", 4}, {"all_reduce of linear, backward", 4}}));
  const AxisId x = searched.x();
  const auto ops = searched.chosen().layout.ops;
  EXPECT_EQ(ops.at("blocks.0.mlp.up"), plan::FactorAxes({{'p', {x}}})) << "columns";
  EXPECT_EQ(ops.at("blocks.0.mlp.down"), plan::FactorAxes({{'k', {x}}})) << "rows";
}

TEST(ChosenLayouts, of_a_million_classes_cut_them_and_the_samples_of_convolutions) {
  Wanted wanted = vgg_on({.data = 4});
  wanted.setup.vgg->num_classes = 1'000'000;
  Sought searched(wanted);
  const AxisId data = searched.data();
  const plan::Layout layout = searched.chosen().layout;
  EXPECT_EQ(layout.ops.at("conv.0"), plan::FactorAxes({{'b', {data}}}));
  EXPECT_EQ(layout.ops.at("conv.1"), plan::FactorAxes({{'b', {data}}}));
  EXPECT_EQ(layout.ops.at("head"), plan::FactorAxes({{'p', {data}}}));
  const std::vector<op::Cuts> classes = {{}, {{data, std::nullopt}}};
  EXPECT_EQ(layout.parameters.at("head.weight").rest.dims, classes);
}

/// Ranks do not divide the vocabulary: the last one has padding. Its plan takes what the problem
/// says.
TEST(ChosenLayouts, of_an_odd_vocabulary_cut_it_with_padding) {
  Wanted wanted = gpt_on({.x = 4}, 1);
  wanted.setup.gpt.vocab_size = 50'257;
  wanted.setup.plan.seq_length = 32;
  Sought sought(wanted);
  const ChosenLayout chosen = sought.chosen();
  const plan::Plan plan = sought.plan(chosen.layout);
  EXPECT_TRUE(plan.of(op::ProgramKind::train).left_out.empty());
  EXPECT_EQ(op::to_string(Shape{50'257, 256}, chosen.layout.parameters.at("wte.weight").rest,
                          sought.mesh),
            "[50257 (x:12565), 256]");
  EXPECT_EQ(chosen.layout.ops.at("logits"), plan::FactorAxes({{'p', {sought.x()}}}));
  EXPECT_NEAR(sought.seconds_of(chosen.layout), chosen.solution.cost,
              sought.shared_seconds(chosen.layout));
}

TEST(ChosenLayouts, of_equal_questions_are_equal) {
  Sought one(gpt_on({.x = 2})), other(gpt_on({.x = 2}));
  const ChosenLayout of_one = one.chosen(), of_other = other.chosen();
  EXPECT_EQ(of_one.layout, of_other.layout);
  EXPECT_EQ(of_one.solution, of_other.solution);
}

/// As figure 10 of the paper: each layer for itself.
TEST(ChosenLayouts, of_72_layers_are_found_as_those_of_few_are) {
  Sought sought(wide_512_on({.data = 8}, 72));
  const ChosenLayout chosen = sought.chosen();
  EXPECT_LE(chosen.solution.statistics.width, 8U);
  EXPECT_EQ(chosen.layout.ops.at("blocks.70.mlp.up"), chosen.layout.ops.at("blocks.1.mlp.up"));
}

TEST(ChosenLayouts, of_layers_alike_are_one_choice_and_cost_no_less) {
  for (const plan::Grid& grid : {plan::Grid{.data = 8}, plan::Grid{.x = 4, .data = 2}}) {
    Sought sought(wide_512_on(grid, 12));
    const ChosenLayout each = sought.chosen();
    sought.setting.layers_alike = true;
    const ChosenLayout alike = sought.chosen();
    EXPECT_LT(alike.solution.statistics.nodes, each.solution.statistics.nodes / 4);
    EXPECT_GE(alike.solution.cost, each.solution.cost * (1 - 1e-12));
    EXPECT_LE(alike.solution.cost, each.solution.cost * 1.01);
    const double found = sought.seconds_of(alike.layout);
    EXPECT_NEAR(found, alike.solution.cost, sought.shared_seconds(alike.layout));
    for (const auto& [name, axes] : alike.layout.ops)
      if (name.starts_with("blocks.0.")) {
        EXPECT_EQ(alike.layout.ops.at("blocks.7." + name.substr(9)), axes) << name;
      }
  }
}

TEST(ChosenLayouts, of_several_shares_hidden_differ_and_each_has_a_bound) {
  Wanted wanted = gpt_on({.data = 4}, 1);
  wanted.setup.gpt.hidden_size = 1024;
  wanted.setup.gpt.ffn_hidden_size = 4096;
  Sought sought(wanted);
  sought.setting.bounds = true;
  const auto outcome = choose_layouts(sought.train(), sought.start, sought.setting, sought.pricer,
                                      solve::usual_solver);
  const auto& layouts = std::get<std::vector<ChosenLayout>>(outcome);
  ASSERT_GE(layouts.size(), 2U);
  EXPECT_EQ(layouts[0].layout, sought.chosen().layout) << "nothing hidden comes first";
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    ASSERT_TRUE(layouts[i].lower_bound.has_value());
    EXPECT_LE(*layouts[i].lower_bound, layouts[i].solution.cost);
    EXPECT_GE(*layouts[i].lower_bound, 0.9 * layouts[i].solution.cost);
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(layouts[i].layout, layouts[j].layout);
    if (i > 0) {
      EXPECT_LT(layouts[i].solution.cost, layouts[i - 1].solution.cost);
    }
  }
}

TEST(ChosenLayouts, on_three_axes_are_bounded_over_all_of_them) {
  Wanted wanted = vgg_on({.x = 2, .z = 2, .data = 2});
  wanted.setup.vgg->widths = {64, 0};
  wanted.setup.vgg->hidden = {};
  Sought sought(wanted);
  sought.setting.bounds = true;
  const ChosenLayout chosen = sought.chosen();
  EXPECT_GE(chosen.solved, 3U);  // two axes, one, and the two again
  ASSERT_TRUE(chosen.lower_bound.has_value());
  std::printf("three axes: %.4f ms, bound %.4f ms\n", 1e3 * chosen.solution.cost,
              1e3 * *chosen.lower_bound);
  EXPECT_LE(*chosen.lower_bound, chosen.solution.cost);
  EXPECT_GE(*chosen.lower_bound, 0.8 * chosen.solution.cost);
}

class GraphWidth : public testing::TestWithParam<Wanted> {};

/// Beside table 5 of the paper.
TEST_P(GraphWidth, is_small) {
  Sought sought(GetParam());
  sought.setting.counts = true;
  const ChosenLayout chosen = sought.chosen();
  ASSERT_TRUE(chosen.numbers.has_value());
  std::printf("%s: %zu ops, %s\n", GetParam().name.c_str(), sought.train().nodes.size(),
              to_string(*chosen.numbers).c_str());
  EXPECT_EQ(chosen.numbers->nodes, chosen.solution.statistics.nodes);
  EXPECT_LE(chosen.numbers->width, 12U);
  EXPECT_GT(chosen.numbers->dropped, 0U);
  EXPECT_EQ(chosen.numbers->segments + 1, chosen.numbers->critical);
}

INSTANTIATE_TEST_SUITE_P(Of, GraphWidth,
                         testing::Values(gpt_on({.x = 2, .data = 2}), vgg_on({.x = 2, .data = 2}),
                                         unet_on({.x = 2, .data = 2})),
                         [](const auto& one) { return one.param.name; });

TEST(LayoutProblems, are_written_as_files_that_solvers_read) {
  Sought sought(vgg_on({.x = 2, .data = 2}));
  const std::string text =
      layout_problem_text(sought.train(), sought.start, sought.setting, sought.pricer);
  const solve::Problem problem = solve::read_problem(text, "made.json");
  const auto outcome = solve::solve(problem, solve::usual_solver);
  EXPECT_EQ(std::get<solve::Solution>(outcome).cost, sought.chosen().solution.cost);
}

/// Any assignment is a layout whose plan takes no more than the problem says, but for what tensors
/// share at the end; less where two ops read what one conversion brings.
TEST(LayoutProblems, say_of_any_assignment_what_its_plan_takes) {
  std::size_t staying = 0, less = 0, padded = 0;
  Wanted odd = gpt_on({.x = 4}, 1);
  odd.setup.gpt.vocab_size = 50'257;
  odd.setup.plan.seq_length = 32;
  for (const Wanted& wanted :
       {odd, gpt_on({.x = 2, .data = 2}), vgg_on({.x = 2, .z = 2}), unet_on({.x = 2})})
    for (std::uint32_t seed = 0; seed < 3; ++seed) {
      SCOPED_TRACE(format("{}, seed {}", wanted.name, seed));
      Sought sought(wanted);
      sought.setting.open = axes_to_cut(sought.mesh, sought.start.samples);
      const LayoutProblem problem(sought.train(), sought.start, sought.setting, sought.pricer);
      solve::Problem drawn = problem.problem();
      std::mt19937 random(seed);
      for (solve::Node& node : drawn.nodes)
        for (double& cost : node.comp) cost += 1e-6 * static_cast<double>(random() % 1000);
      const auto outcome = solve::solve(drawn, "o2");
      const auto* solution = std::get_if<solve::Solution>(&outcome);
      if (solution == nullptr) continue;  // its segments meet in a forbidden pair
      const double cost = solve::cost_of(problem.problem(), solution->choices);
      const plan::Layout layout = problem.layout(solution->choices);
      const plan::Plan plan = sought.plan(layout);
      EXPECT_TRUE(plan.of(op::ProgramKind::train).left_out.empty());
      const double found = sought.seconds_of(layout);
      EXPECT_LE(found, cost + sought.shared_seconds(layout));
      EXPECT_GE(found, 0.5 * cost);
      less += found < 0.999 * cost ? 1 : 0;
      const auto& shardings = plan.of(op::ProgramKind::train).values;
      for (std::size_t i = 0; i < shardings.size(); ++i)
        padded += has_padding(sought.train().values[i].shape, shardings[i], sought.mesh) ? 1 : 0;
      for (const auto& [name, keep] : layout.activations) {
        staying += keep.sums_stay ? 1 : 0;
      }
    }
  std::printf("%zu values kept are terms, %zu have padding; %zu plans take less\n", staying, padded,
              less);
  EXPECT_GT(staying, 0U);
  EXPECT_GT(padded, 0U);
}

}  // namespace
}  // namespace fourfold::search
