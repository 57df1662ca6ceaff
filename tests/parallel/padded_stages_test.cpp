// A table that the first and the last stage use, whose rows their ranks do not divide: the last
// tile has padding on both, which no message brings.
#include <gtest/gtest.h>

#include "support/stages.h"

namespace fourfold::test::stages {
namespace {

RunSetup with_rows(std::int64_t rows) {
  RunSetup setup = gpt();
  setup.gpt.vocab_size = rows;
  return setup;
}

TEST(PaddedStages, share_a_table_as_one_rank_has_it) {
  const std::vector<Pipeline> pipelines = {
      {{{.x = 2, .data = 1}, {.x = 2, .data = 1}}, {2}},
      {{{.x = 2, .data = 1}, {.data = 2}, {.x = 2, .y = 2, .data = 1}}, {1, 3}},
      {{{.data = 1}, {.x = 2, .z = 2, .data = 1}}, {2}},
      {{{.x = 2, .z = 2, .data = 1}, {.data = 2}}, {2}}};
  expect_equal_to_serial(with_rows(41), pipelines, "GPT, 41 rows", {Schedule::one_f_one_b});
}

TEST(PaddedStages, that_share_states_on_data_too) {
  RunSetup setup = with_rows(37);
  setup.plan.shard_states = true;
  expect_equal_to_serial(setup, {{{{.x = 2, .data = 2}, {.x = 2, .data = 2}}, {2}}},
                         "GPT, 37 rows, ZeRO-1", {Schedule::one_f_one_b});
}

TEST(PaddedStages, are_refused_where_a_rank_would_have_no_row) {
  RunSetup setup = with_rows(5);
  plan::PlanSpec spec = setup.plan;
  spec.pipeline = Pipeline{{{.x = 2, .y = 2, .data = 1}, {.data = 1}}, {2}}.with(
      Schedule::one_f_one_b, setup.gpt.num_layers);
  const auto graphs = model::build(setup.model(), {4, 6, 24}, setup.optimizer);
  const auto planned = plan::plan_model(graphs, spec);
  const auto* infeasible = std::get_if<plan::Infeasible>(&planned);
  ASSERT_NE(infeasible, nullptr);
  const auto* padded = std::get_if<plan::PaddedTransfer>(&infeasible->problems.at(0));
  ASSERT_NE(padded, nullptr);
  EXPECT_EQ(padded->rows, 5);
  EXPECT_EQ(padded->ranks, 4);
}

}  // namespace
}  // namespace fourfold::test::stages
