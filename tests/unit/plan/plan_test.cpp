#include "plan/plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/gpt.h"
#include "support/infeasible_words.h"

namespace fourfold::plan {
namespace {

/// A GPT whose sizes have few common divisors, and its plan on a grid.
struct OnGrid {
  model::GptSpec gpt{.num_layers = 2,
                     .num_attention_heads = 6,
                     .hidden_size = 24,
                     .ffn_hidden_size = 48,
                     .max_position_embeddings = 8,
                     .vocab_size = 37};
  PlanSpec spec{.global_batch_size = 16, .micro_batch_size = 1, .seq_length = 8};
  graph::ModelGraphs model;

  std::variant<Plan, Infeasible> solve(const Grid& grid) {
    spec.grid = grid;
    const auto batching = std::get<Batching>(solve_batching(spec));
    model = model::build(gpt, {batching.samples(), batching.length, batching.global_batch}, {});
    return make_plan(model, spec);
  }
  std::string refusal(const Grid& grid) {
    const auto solved = solve(grid);
    const auto* infeasible = std::get_if<Infeasible>(&solved);
    return infeasible == nullptr ? "" : test::in_words(*infeasible);
  }
  /// How a value of the training graph is kept.
  std::string state(const Plan& plan, std::string_view name) const {
    const graph::Graph& train = model.at(op::ProgramKind::train);
    const graph::ValueId id = *train.find(name);
    return op::to_string(train.value(id).shape, plan.of(op::ProgramKind::train).values[id.index()],
                         plan.meshes[0]);
  }
};

TEST(Batching, accumulation_is_what_is_left_of_the_global_batch) {
  const auto accumulation = [](std::int64_t micro, const Grid& grid) {
    return std::get<Batching>(solve_batching({.global_batch_size = 24,
                                              .micro_batch_size = micro,
                                              .seq_length = 8,
                                              .grid = grid}))
        .accumulation;
  };
  EXPECT_EQ(accumulation(3, {}), 8);
  EXPECT_EQ(accumulation(3, {1, 1, 2, 2}), 2);
  EXPECT_EQ(accumulation(2, {4, 4, 3, 1}), 4);
}

TEST(Batching, an_indivisible_batch_is_a_value_that_names_both_keys_and_a_size_that_works) {
  const auto batching =
      solve_batching({.global_batch_size = 12, .micro_batch_size = 5, .seq_length = 8});
  const auto& infeasible = std::get<Infeasible>(batching);
  ASSERT_EQ(infeasible.problems.size(), 1U);
  EXPECT_EQ(config::in_words(infeasible.problems[0]).keys,
            (std::vector<std::string>{"train.global_batch_size", "train.micro_batch_size"}));
  EXPECT_NE(test::in_words(infeasible).find("set train.micro_batch_size = 4"), std::string::npos)
      << test::in_words(infeasible);
}

TEST(Batching, chunks_divide_what_a_rank_processes_at_once) {
  PlanSpec spec{.global_batch_size = 12, .micro_batch_size = 6, .seq_length = 8};
  spec.chunks = 2;
  EXPECT_EQ(std::get<Batching>(solve_batching(spec)).chunks, 2);
  spec.chunks = 4;
  const auto batching = solve_batching(spec);
  const auto& infeasible = std::get<Infeasible>(batching);
  EXPECT_EQ(config::in_words(infeasible.problems.at(0)).keys,
            (std::vector<std::string>{"parallel.chunks", "train.micro_batch_size"}));
  EXPECT_EQ(test::in_words(infeasible),
            "the 6 samples that a rank processes at once cannot be divided into parallel.chunks = "
            "4; set parallel.chunks = 2");
}

TEST(Batching, ranks_on_data_and_z_take_different_samples) {
  const auto refusal = [](std::int64_t micro, const Grid& grid) {
    return test::in_words(std::get<Infeasible>(solve_batching(
        {.global_batch_size = 12, .micro_batch_size = micro, .seq_length = 8, .grid = grid})));
  };
  const std::string micro = refusal(4, {1, 1, 2, 2});
  EXPECT_NE(micro.find("16 samples that all ranks process at once"), std::string::npos) << micro;
  EXPECT_NE(micro.find("parallel.data = 2 x parallel.tensor.z = 2; set train.micro_batch_size = 3"),
            std::string::npos)
      << micro;
  const std::string whole = refusal(1, {1, 1, 1, 5});
  EXPECT_NE(whole.find("set train.global_batch_size = 15"), std::string::npos) << whole;
}

TEST(Plan, knows_a_state_for_every_value_and_node_of_every_graph) {
  OnGrid setup;
  const auto plan = std::get<Plan>(setup.solve({2, 2, 2, 2}));
  EXPECT_EQ(plan.world, 16);
  for (const auto& graph : setup.model.graphs) {
    EXPECT_EQ(plan.of(graph.kind).values.size(), graph.values.size());
    EXPECT_EQ(plan.of(graph.kind).nodes.size(), graph.nodes.size());
  }
  EXPECT_NE(to_text(plan, setup.model).find("batch: 16 = 1 micro x 4 accumulation x 4 data.z"),
            std::string::npos)
      << to_text(plan, setup.model);
}

TEST(Plan, weights_lie_as_in_axonns_algorithm_and_every_second_product_is_transposed) {
  OnGrid setup;
  const auto plan = std::get<Plan>(setup.solve({2, 3, 2, 1}));
  EXPECT_EQ(setup.state(plan, "blocks.0.attn.qkv.weight"), "[24 (y,z), 3, 6 (x), 4]");
  EXPECT_EQ(setup.state(plan, "blocks.0.mlp.up.weight"), "[24 (y,z), 48 (x)]");
  EXPECT_EQ(setup.state(plan, "blocks.1.mlp.down.weight"), "[48 (x,z), 24 (y)]");
  EXPECT_EQ(setup.state(plan, "blocks.0.mlp.up.bias"), "[48]");
  // 37 tokens over 12 ranks: padded to 48, and each rank has 4.
  EXPECT_EQ(setup.state(plan, "wte.weight"), "[37 (x:24,y:8,z:4), 24]");
}

TEST(Plan, optimizer_state_is_cut_on_data_where_asked) {
  OnGrid setup;
  setup.spec.shard_states = true;
  const auto plan = std::get<Plan>(setup.solve({1, 1, 2, 2}));
  EXPECT_EQ(setup.state(plan, "blocks.0.mlp.up.weight"), "[24 (z), 48]");
  EXPECT_EQ(setup.state(plan, "m/blocks.0.mlp.up.weight"), "[24 (z,data), 48]");
}

TEST(Plan, a_size_that_an_axis_does_not_divide_is_refused_with_the_degrees_that_would) {
  OnGrid setup;
  const std::string x = setup.refusal({5, 1, 1, 1});
  EXPECT_NE(x.find("parallel.tensor.x = 5 does not divide the 48 columns of "
                   "blocks.0.mlp.up.weight"),
            std::string::npos)
      << x;
  EXPECT_NE(x.find("degrees that do: 1, 2, 3, 4, 6, 8"), std::string::npos) << x;
  const std::string y = setup.refusal({1, 5, 1, 1});
  EXPECT_NE(y.find("parallel.tensor.y = 5 does not divide the 24 columns"), std::string::npos) << y;
  EXPECT_NE(y.find("see model.hidden_size"), std::string::npos) << y;
  // After y has taken its share, z finds 8 rows left.
  const std::string z = setup.refusal({1, 3, 16, 1});
  EXPECT_NE(z.find("parallel.tensor.z = 16 does not divide the 8 rows"), std::string::npos) << z;
  EXPECT_NE(z.find("degrees that do: 1, 2, 4, 8"), std::string::npos) << z;
}

TEST(Plan, every_problem_of_a_grid_is_reported_once) {
  OnGrid setup;
  const auto solved = setup.solve({5, 7, 1, 1});
  const auto& problems = std::get<Infeasible>(solved).problems;
  std::vector<std::vector<std::string>> keys;
  for (const auto& problem : problems) keys.push_back(config::in_words(problem).keys);
  for (std::size_t i = 0; i < keys.size(); ++i)
    for (std::size_t j = i + 1; j < keys.size(); ++j) EXPECT_NE(keys[i], keys[j]);
  const auto names = [&](std::string_view key) {
    return std::any_of(keys.begin(), keys.end(), [&](const auto& k) { return k[0] == key; });
  };
  EXPECT_TRUE(names("parallel.tensor.x"));
  EXPECT_TRUE(names("parallel.tensor.y"));
}

TEST(Plan, odd_vocabularies_and_heads_never_stand_in_the_way) {
  OnGrid setup;
  setup.gpt.num_attention_heads = 3;
  setup.gpt.vocab_size = 13;
  EXPECT_EQ(setup.refusal({4, 2, 1, 2}), "");  // 4 does not divide 3 heads, 16 not 13 tokens
}

}  // namespace
}  // namespace fourfold::plan
