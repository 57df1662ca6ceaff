#include "plan/plan.h"

#include <gtest/gtest.h>

#include "model/gpt.h"

namespace fourfold::plan {
namespace {

TEST(Batching, accumulation_is_what_is_left_of_the_global_batch) {
  const auto batching =
      solve_batching({.global_batch_size = 12, .micro_batch_size = 3, .seq_length = 8});
  EXPECT_EQ(std::get<Batching>(batching).accumulation, 4);
}

TEST(Batching, an_indivisible_batch_is_a_value_that_names_both_keys_and_a_size_that_works) {
  const auto batching =
      solve_batching({.global_batch_size = 12, .micro_batch_size = 5, .seq_length = 8});
  const auto& infeasible = std::get<Infeasible>(batching);
  ASSERT_EQ(infeasible.problems.size(), 1U);
  EXPECT_EQ(infeasible.problems[0].keys,
            (std::vector<std::string>{"train.global_batch_size", "train.micro_batch_size"}));
  EXPECT_NE(to_text(infeasible).find("set train.micro_batch_size = 4"), std::string::npos)
      << to_text(infeasible);
}

TEST(Plan, knows_a_sharding_for_every_value_of_every_graph) {
  const auto model = model::build_gpt({.num_layers = 1,
                                       .num_attention_heads = 1,
                                       .hidden_size = 4,
                                       .ffn_hidden_size = 8,
                                       .max_position_embeddings = 3,
                                       .vocab_size = 5},
                                      {.samples = 2, .length = 3, .global_batch = 4}, {});
  const auto plan = std::get<Plan>(
      make_plan(model, {.global_batch_size = 4, .micro_batch_size = 2, .seq_length = 3}));
  for (const auto& graph : model.graphs) EXPECT_EQ(plan.of(graph.name).size(), graph.values.size());
  EXPECT_NE(to_text(plan, model).find("batch: 4 = 2 micro x 2 accumulation x 1 data.z"),
            std::string::npos)
      << to_text(plan, model);
}

}  // namespace
}  // namespace fourfold::plan
