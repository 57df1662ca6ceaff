#include "config/config.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/print.h"
#include "unit/config/scratch.h"

namespace fourfold::config::load_test {
namespace {

const char* const synthetic = "data: {format: synthetic}\nmodel: {vocab_size: 64}\n";

TEST(Load, an_almost_empty_file_gets_the_defaults) {
  const Config config = load_text("data: {path: x.txt}\n");
  EXPECT_EQ(config.name, "a");
  EXPECT_EQ(config.dir, "runs/a");
  EXPECT_EQ(config.gpt.ffn_hidden_size, 4 * config.gpt.hidden_size);
  EXPECT_EQ(config.gpt.max_position_embeddings, config.data.seq_length);
  EXPECT_EQ(config.plan_spec().micro_batch_size, config.plan.global_batch_size);
  EXPECT_EQ(config.train.schedule.decay_steps, config.train.steps);
  EXPECT_EQ(config.train.schedule.warmup_steps, 100);
  EXPECT_EQ(config.train.schedule.min_lr, config.train.schedule.lr / 10);
  EXPECT_EQ(config.gpt.vocab_size, 0);
  EXPECT_EQ(config.kernels, "auto");
}

TEST(Load, defaults_follow_the_values_of_other_keys) {
  const Config config =
      load_text(synthetic, {"train.steps=50", "lr_schedule.kind=warmup_stable_decay",
                            "model.hidden_size=64", "data.seq_length=8", "optimizer.lr=1"});
  EXPECT_EQ(config.train.schedule.decay_steps, 10);
  EXPECT_EQ(config.train.schedule.warmup_steps, 2);
  EXPECT_EQ(config.train.schedule.min_lr, 0.1);
  EXPECT_EQ(config.gpt.ffn_hidden_size, 256);
  EXPECT_EQ(config.gpt.max_position_embeddings, 8);
  EXPECT_EQ(config.sample.tokens, 0);
}

TEST(Load, a_grid_is_read_from_its_nested_section) {
  const Config config = load_text(
      std::string(synthetic) +
      "parallel:\n  strategy: axonn\n  tensor: {x: 2, y: 4, z: 3}\n  data: 5\n"
      "  order: [data, x, z, y]\noptimizer: {shard: states}\nrun: {watchdog_s: 12.5}\n"
      "precision: {compute: bf16}\ntrain: {global_batch_size: 30, micro_batch_size: 2}\n");
  EXPECT_EQ(config.plan.grid, (plan::Grid{2, 4, 3, 5, {"data", "x", "z", "y"}}));
  EXPECT_TRUE(config.plan.shard_states);
  EXPECT_EQ(config.watchdog_s, 12.5);
  EXPECT_EQ(config.plan.compute, DType::bf16);
  EXPECT_EQ(config.plan_spec().micro_batch_size, 2);
}

TEST(Load, a_configuration_whose_grid_alone_is_wrong_knows_where_its_keys_were_set) {
  try {
    load_text(std::string(synthetic) + "train: {global_batch_size: 8}\nparallel: {data: 3}\n",
              {"parallel.pipeline.stages=1"});
    FAIL() << "three ranks do not divide a batch of 8";
  } catch (const UnfitGrid& error) {
    const Origins& origins = error.config().origins;
    EXPECT_EQ(origins.find("parallel.pipeline.stages")->place, "--set #1");
    EXPECT_TRUE(origins.find("parallel.data")->place.ends_with("/a.yaml:4"));
    EXPECT_EQ(origins.find("parallel.pipeline.schedule")->place, "default");
  }
}

TEST(Load, sizes_of_the_grid_may_be_left_to_the_planner_all_together_or_one_by_one) {
  const auto grid_of = [](const std::string& tensor, const std::vector<std::string>& sets = {}) {
    return load_text(std::string(synthetic) + "parallel:\n  tensor: " + tensor + "\n", sets);
  };
  const Config all = grid_of("auto");
  EXPECT_EQ(all.open_axes, (OpenAxes{.x = true, .y = true, .z = true, .data = true}));
  EXPECT_EQ(all.plan.grid.x * all.plan.grid.y * all.plan.grid.z, 1);
  EXPECT_EQ(grid_of("{x: auto, y: 2}").open_axes, (OpenAxes{.x = true, .data = true}));
  EXPECT_EQ(grid_of("{x: auto, y: 2}").plan.grid.y, 2);
  const Config some = grid_of("auto", {"parallel.tensor.z=4", "train.global_batch_size=8"});
  EXPECT_EQ(some.open_axes, (OpenAxes{.x = true, .y = true, .data = true}));
  EXPECT_EQ(some.plan.grid.z, 4);
  EXPECT_FALSE(load_text(synthetic, {"parallel.tensor=auto", "parallel.tensor={x: 1, y: 1, z: 1}"})
                   .open_axes.are_planned())
      << "a later value wins";
  const std::string text = resolved_yaml(some);
  EXPECT_NE(text.find("    x: auto\n"), std::string::npos) << text;
  EXPECT_EQ(load_text(text), some);
}

TEST(Load, the_number_of_stages_may_be_left_to_the_planner_where_nothing_is_said_of_single_ones) {
  const Config open = load_text(synthetic, {"parallel.pipeline.stages=auto"});
  EXPECT_EQ(open.open_axes, (OpenAxes{.stages = true, .data = true}));
  EXPECT_EQ(open.plan.pipeline.stages, 1);
  const std::string text = resolved_yaml(open);
  EXPECT_NE(text.find("    stages: auto\n"), std::string::npos) << text;
  EXPECT_EQ(load_text(text), open);
  EXPECT_EQ(load_text(synthetic, {"parallel.pipeline.stages=2", "parallel.tensor=auto"})
                .plan.pipeline.stages,
            2);
  const auto refused = [](const std::vector<std::string>& sets, const std::string& words) {
    try {
      load_text(synthetic, sets);
      ADD_FAILURE() << words;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused({"parallel.pipeline.stages=auto", "parallel.pipeline.blocks=[1, 1]"},
          "parallel.pipeline.blocks has numbers for stages of which auto leaves open how many");
  refused({"parallel.pipeline.stages=2", "parallel.pipeline.meshes=[{x: 2}, {data: 2}]",
           "parallel.tensor=auto"},
          "parallel.pipeline.meshes gives each stage its grid, and auto asks the planner for it");
}

TEST(Load, pins_are_read_in_their_order_and_printed_as_they_are_read) {
  const Config config = load_text(
      std::string(synthetic) +
      "parallel:\n  pin:\n    wte.weight: \"[64, * (x)]\"\n    \"*.up.weight\": \"[*, *]\"\n");
  ASSERT_EQ(config.plan.pins.size(), 2U);
  EXPECT_EQ(config.plan.pins[0].pattern, "wte.weight");
  EXPECT_EQ(plan::to_string(config.plan.pins[0].dims), "[64, * (x)]");
  EXPECT_EQ(load_text(resolved_yaml(config)), config);
  EXPECT_TRUE(load_text(synthetic).plan.pins.empty());
}

TEST(Load, the_residual_stream_has_the_type_of_the_computation_or_float32_beside_bf16) {
  const auto residual_of = [](const std::string& precision) {
    const Config config = load_text(std::string(synthetic) + "precision: {" + precision + "}\n");
    EXPECT_EQ(std::get<model::GptSpec>(config.model()).wide_residual,
              config.residual != config.plan.compute)
        << precision;
    return config.residual;
  };
  EXPECT_EQ(load_text(synthetic).residual, DType::f32);
  EXPECT_EQ(residual_of("compute: fp64"), DType::f64);
  EXPECT_EQ(residual_of("compute: bf16"), DType::bf16);
  EXPECT_EQ(residual_of("compute: bf16, residual: bf16"), DType::bf16);
  EXPECT_EQ(residual_of("compute: bf16, residual: fp32"), DType::f32);
  EXPECT_EQ(residual_of("compute: fp32, residual: fp32"), DType::f32);
}

TEST(Load, a_grid_is_one_rank_unless_given) {
  const Config config = load_text(synthetic);
  EXPECT_EQ(config.plan.grid, (plan::Grid{1, 1, 1, 1, {"x", "y", "z", "data"}}));
  EXPECT_EQ(config.plan.strategy, plan::Strategy::axonn);
  EXPECT_FALSE(config.plan.shard_sequence);
  EXPECT_FALSE(config.plan.shard_states);
  EXPECT_EQ(config.watchdog_s, 0);
  EXPECT_EQ(config.micro_batch_size, std::nullopt);
}

TEST(Load, a_section_in_a_section_may_be_set_whole_or_by_key) {
  const Config config = load_text(synthetic, {"parallel.tensor={x: 2}", "parallel.tensor.z=3",
                                              "parallel={data: auto, strategy: axonn}"});
  EXPECT_EQ(config.plan.grid, (plan::Grid{2, 1, 3, 1, {"x", "y", "z", "data"}}));
  EXPECT_TRUE(config.open_axes.data);
}

TEST(Load, each_strategy_has_its_axes) {
  const Config megatron = load_text(synthetic, {"parallel.strategy=megatron", "parallel.tensor.x=4",
                                                "parallel.data=2", "parallel.shard_sequence=true"});
  EXPECT_EQ(megatron.plan.strategy, plan::Strategy::megatron);
  EXPECT_TRUE(megatron.plan.shard_sequence);
  const Config fsdp = load_text(synthetic, {"parallel.strategy=fsdp", "parallel.tensor.z=4"});
  EXPECT_EQ(fsdp.plan.strategy, plan::Strategy::fsdp);
  EXPECT_EQ(fsdp.plan.grid.z, 4);
}

TEST(Load, the_micro_batch_is_all_of_a_ranks_share_unless_given) {
  const auto micro = [](const std::vector<std::string>& sets) {
    return load_text(synthetic, sets).plan_spec().micro_batch_size;
  };
  EXPECT_EQ(micro({}), 12);
  EXPECT_EQ(micro({"parallel.tensor.z=3"}), 4);
  EXPECT_EQ(micro({"parallel.tensor.z=3", "parallel.data=2"}), 2);
  EXPECT_EQ(micro({"parallel.tensor.x=3", "parallel.tensor.y=2"}), 12);
  EXPECT_EQ(micro({"train.micro_batch_size=auto", "parallel.data=6"}), 2);
}

TEST(Load, values_that_rooms_share_reach_all_of_them) {
  const Config config =
      load_text(synthetic, {"run.seed=7", "data.seq_length=8", "run.name=n", "run.dir=d"});
  EXPECT_EQ(config.train_spec().seed, 7U);
  EXPECT_EQ(config.data_spec().seed, 7U);
  EXPECT_EQ(config.sample_spec().seed, 7U);
  EXPECT_EQ(config.plan_spec().seq_length, 8);
  EXPECT_EQ(config.data_spec().vocab_size, 64);
  EXPECT_EQ(config.train_spec().run_name, "n");
  EXPECT_EQ(config.train_spec().run_dir, "d");
}

TEST(Load, numbers_may_have_underscores_exponents_and_suffixes) {
  const auto steps = [](const std::string& text) {
    return load_text(synthetic, {"train.steps=" + text}).train.steps;
  };
  EXPECT_EQ(steps("1_000"), 1000);
  EXPECT_EQ(steps("2e3"), 2000);
  EXPECT_EQ(steps("1.5e3"), 1500);
  EXPECT_EQ(steps("4k"), 4000);
  EXPECT_EQ(steps("2M"), 2'000'000);
  EXPECT_EQ(steps("1.5B"), 1'500'000'000);
  EXPECT_EQ(steps("100.0"), 100);
  EXPECT_EQ(load_text(synthetic, {"run.seed=9223372036854775807"}).seed, 9223372036854775807U);
  EXPECT_EQ(load_text(synthetic, {"optimizer.lr=1e-4"}).train.schedule.lr, 1e-4);
  EXPECT_EQ(load_text(synthetic, {"optimizer.lr=.5"}).train.schedule.lr, 0.5);
}

TEST(Load, every_kind_of_value_is_stored) {
  const Config config = load_text(
      "data: {path: \"a b.txt\", tokenizer: byte, split: 0.5}\nmodel: {bias: false, tied_head: "
      "false}\n"
      "optimizer: {betas: [0.8, 0.9]}\nmemory: {activation_checkpointing: every 2}\n"
      "precision: {compute: fp64}\nkernels: reference\nrun: {threads: 3}\nsample: {prompt: 42}\n");
  EXPECT_EQ(config.data.path, "a b.txt");
  EXPECT_EQ(config.data.tokenizer, tokenizer::TokenizerKind::byte);
  EXPECT_FALSE(config.gpt.bias);
  EXPECT_FALSE(config.gpt.tied_head);
  EXPECT_EQ(std::get<op::AdamW>(config.optimizer.settings), (op::AdamW{0.8, 0.9}));
  EXPECT_EQ(config.plan.checkpointing.layers, 2);
  EXPECT_EQ(config.plan.compute, DType::f64);
  EXPECT_EQ(config.kernels, "reference");
  EXPECT_EQ(config.threads, 3);
  EXPECT_EQ(config.sample.prompt, "42");
}

TEST(Load, later_files_win_and_set_wins_over_files) {
  const Scratch scratch;
  const std::vector<std::string> files = {
      scratch.write("base.yaml",
                    std::string(synthetic) + "train: {steps: 1, global_batch_size: 6}\n"),
      scratch.write("big.yaml", "train:\n  steps: 2\n")};
  EXPECT_EQ(load(files, {}).train.steps, 2);
  EXPECT_EQ(load(files, {}).plan.global_batch_size, 6);
  EXPECT_EQ(load(files, {}).name, "big");
  const std::vector<std::string> sets = {"train.steps=3", "train.steps=4"};
  EXPECT_EQ(load(files, sets).train.steps, 4);
}

TEST(Load, a_section_may_be_set_as_a_map) {
  const Config config = load_text(synthetic, {"train={steps: 5, global_batch_size: 2}"});
  EXPECT_EQ(config.train.steps, 5);
  EXPECT_EQ(config.plan.global_batch_size, 2);
}

TEST(Load, an_empty_section_is_no_problem) {
  EXPECT_EQ(problems_of("eval:\ndata: {path: x}\n"), "");
}

TEST(Load, all_problems_of_all_files_and_sets_are_reported_together) {
  const Scratch scratch;
  const std::vector<std::string> files = {
      scratch.write("one.yaml",
                    "model:\n  num_layers: four\n  n_embd: 64\n  bias: yes\n  bias: true\ntrain:\n "
                    " steps: 010\n"
                    "data: {path: x}\n"),
      scratch.write("two.yaml",
                    "modle: {}\ntrain: {global_batch_size: 12, micro_batch_size: 5}\n"
                    "optimizer: {betas: [1, 0.5]}\n")};
  const std::vector<std::string> sets = {"train.steps=7", "sample.top_k=-1", "eval.batchs=3"};
  try {
    load(files, sets);
    FAIL() << "nothing was reported";
  } catch (const UserError& error) {
    const std::string text = error.what();
    EXPECT_EQ(count_problems(text), 10U) << text;
    for (const char* expected :
         {"one.yaml:2:15:", "one.yaml:3:3:", "one.yaml:4:9:", "one.yaml:5:3:", "one.yaml:7:10:",
          "two.yaml:1:1:", "two.yaml:2:50: error: train.global_batch_size = 12 is not divisible",
          "two.yaml:3:21:", "--set #2: error:", "--set #3: error:"})
      EXPECT_NE(text.find(expected), std::string::npos) << "expected: " << expected << "\n" << text;
  }
}

TEST(Load, problems_are_reported_in_the_order_of_the_text) {
  const std::string text = problems_of(
      "data: {path: x}\ntrain: {micro_batch_size: 5}\nmodel:\n  bias: 1\n  bias: true\n",
      {"log.interval=0"});
  const std::vector<std::string> places = {"a.yaml:2:", "a.yaml:4:", "a.yaml:5:", "--set #1"};
  for (std::size_t i = 0; i + 1 < places.size(); ++i)
    EXPECT_LT(text.find(places[i]), text.find(places[i + 1])) << text;
}

TEST(Load, what_follows_from_another_problem_is_not_reported) {
  EXPECT_EQ(count_problems(problems_of("data: {pat: x.txt}\n")), 1U);
  EXPECT_EQ(count_problems(problems_of("data: {path: x}\nmodel: {hidden_size: 30, n_head: 5}\n")),
            1U);
  EXPECT_EQ(count_problems(problems_of("data: [\n")), 1U);
}

TEST(Load, a_missing_file_is_a_configuration_error) {
  const std::vector<std::string> files = {"/nonexistent/a.yaml"};
  try {
    load(files, {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_config);
    EXPECT_NE(std::string(error.what()).find("/nonexistent/a.yaml: error: cannot be read"),
              std::string::npos);
  }
}

TEST(Load, hostile_files_are_refused_with_few_words) {
  std::string unknown;
  for (int i = 0; i < 4000; ++i) unknown += "key" + std::to_string(i) + ": 1\n";
  for (const std::string& text : {std::string(100'000, '['), "a: &x [1]\nb: *x\n" + unknown,
                                  unknown, std::string(500'000, 'k') + ": 1\n",
                                  "model: {num_layers: " + std::string(500'000, '9') + "}\n"}) {
    const std::string report = problems_of(text);
    EXPECT_NE(report, "");
    EXPECT_LT(report.size(), 40'000U);
  }
}

TEST(Load, without_files_the_sets_alone_may_do) {
  const std::vector<std::string> sets = {"data.format=synthetic", "model.vocab_size=9"};
  EXPECT_EQ(load({}, sets).name, "gpt");
  try {
    load({}, {});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("configuration: error: data.format = text needs data.path"));
  }
}

}  // namespace
}  // namespace fourfold::config::load_test
