// Training, evaluation and text on a GPU as users ask for them.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "support/gpu_commands.h"

namespace fourfold::test {
namespace {

/// Six steps: as for ten against PyTorch (tests/golden).
constexpr double bound = 1e-5;

TEST_F(GpuCommands, trained_twice_a_model_has_the_same_weights_and_metrics) {
  for (const char* precision : {"fp32", "bf16"}) {
    const std::string once = format("once-{}", precision), again = format("again-{}", precision);
    train(once, on("cuda", precision));
    train(again, on("cuda", precision));
    expect_same_run(once, again);
  }
  EXPECT_FALSE(weights("once-fp32") == weights("once-bf16")) << "the precision counts";
}

TEST_F(GpuCommands, stopped_and_resumed_a_run_is_the_one_that_never_stopped) {
  for (const char* precision : {"fp32", "bf16"}) {
    const std::string whole = format("whole-{}", precision),
                      halves = format("halves-{}", precision);
    train(whole, on("cuda", precision));
    train(halves, on("cuda", precision), {"--stop-at", "3"});
    train(halves, on("cuda", precision));
    expect_same_run(whole, halves);
  }
}

TEST_F(GpuCommands, with_attention_of_cudnn_runs_repeat_and_resume_bit_for_bit) {
  // No dropout, a head of 64, 24 tokens and heads in a micro-batch: what cuDNN has kernels for.
  const Words sets =
      joined(on("cuda", "bf16"), {"model.dropout=0", "model.num_layers=1",
                                  "model.num_attention_heads=1", "model.hidden_size=64"});
  const Outcome program = with_config("program", sets);
  ASSERT_EQ(program.code, 0) << program.text;
  EXPECT_EQ(program.output.find("by cudnn") != std::string::npos, takes_cudnn());
  const Outcome plan = with_config("plan", sets);
  EXPECT_NE(plan.output.find(takes_cudnn() ? "attention by cudnn" : "attention by own"),
            std::string::npos)
      << plan.output;
  train("once", sets);
  train("again", sets);
  expect_same_run("once", "again");
  train("halves", sets, {"--stop-at", "3"});
  train("halves", sets);
  expect_same_run("once", "halves");
}

TEST_F(GpuCommands, without_weights_at_the_end_a_run_has_its_metrics_alone) {
  train("plain", on("cuda"));
  const Outcome outcome =
      with_config("train", joined(on("cuda"), {"run.dir=" + path("bare")}), {"--no-weights"});
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  EXPECT_NE(outcome.output.find("not written"), std::string::npos) << outcome.output;
  EXPECT_FALSE(file_exists(path("bare") + "/model.safetensors"));
  expect_equal_steps(steps("bare"), steps("plain"), 0);
}

TEST_F(GpuCommands, a_traced_run_is_one_that_is_not_traced_and_leaves_a_timeline) {
  train("plain", on("cuda"));
  train("traced", on("cuda"), {"--trace", "2"});
  expect_same_run("plain", "traced");
  const Outcome summary = run_here({"trace", "summary", "--json", path("traced")});
  ASSERT_EQ(summary.code, 0) << summary.text;
  const Json json = parse_json(summary.output, "summary");
  EXPECT_GT(json.find("ranks")->items()[0].find("compute_s")->as_double(), 0);
}

TEST_F(GpuCommands, ranks_that_share_the_gpu_train_as_one_does_and_one_goes_on_from_theirs) {
  const Words grid =
      joined(on("cuda"), {"parallel.tensor.x=2", "parallel.data=2", "train.micro_batch_size=1"});
  train("alone", on("cuda"));
  train("grid", grid);
  expect_equal_steps(steps("grid"), steps("alone"), bound);
  train("fewer", grid, {"--stop-at", "3"});
  train("fewer", on("cuda"));
  expect_equal_steps(steps("fewer"), steps("alone"), bound);
  train("bf16", joined(on("cuda", "bf16"),
                       {"parallel.tensor.y=2", "parallel.tensor.z=2", "train.micro_batch_size=1"}));
  EXPECT_EQ(steps("bf16").size(), steps("alone").size());
}

TEST_F(GpuCommands, a_traced_run_of_two_ranks_leaves_a_timeline_of_both) {
  train("traced", joined(on("cuda"), {"parallel.data=2"}), {"--trace", "2"});
  const Outcome summary = run_here({"trace", "summary", "--json", path("traced")});
  ASSERT_EQ(summary.code, 0) << summary.text;
  const Json json = parse_json(summary.output, "summary");
  ASSERT_EQ(json.find("ranks")->items().size(), 2U);
  for (const Json& rank : json.find("ranks")->items())
    EXPECT_GT(rank.find("compute_s")->as_double(), 0);
}

TEST_F(GpuCommands, a_run_goes_from_the_cpu_to_the_gpu_and_back) {
  train("cpu", on("cpu"));
  train("gpu", on("cuda"));
  expect_equal_steps(steps("gpu"), steps("cpu"), bound);
  train("changing", on("cpu"), {"--stop-at", "2"});
  train("changing", on("cuda"), {"--stop-at", "4"});
  train("changing", on("cpu"));
  expect_equal_steps(steps("changing"), steps("cpu"), bound);
}

TEST_F(GpuCommands, a_model_is_judged_and_writes_as_it_does_on_the_cpu) {
  train("run", on("cuda"));
  std::string text;
  for (int i = 0; i < 40; ++i) text += format("{} ", (7 * i * i + 3) % 31);
  write_bytes(path("text"), text);
  const auto judged = [&](const std::string& device) {
    const Outcome outcome =
        run_here({"eval", path("run"), "--text", path("text"), "--json", "--device", device});
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    const Json json = parse_json(outcome.output, device);
    return json.find("loss")->as_double();
  };
  const double on_cpu = judged("cpu"), on_gpu = judged("cuda");
  EXPECT_NEAR(on_gpu, on_cpu, bound * on_cpu);
  EXPECT_EQ(judged("cuda"), on_gpu);
  const auto written = [&](const std::string& device) {
    const Outcome outcome = run_here({"generate", path("run"), "--prompt", "3 1 4", "--tokens", "6",
                                      "--seed", "5", "--device", device});
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    return outcome.output;
  };
  EXPECT_EQ(written("cuda"), written("cuda"));
  // Draws are the same on both; a token differs only where one falls within rounding of a border.
  EXPECT_EQ(written("cuda"), written("cpu"));
}

TEST_F(GpuCommands, heads_that_no_kernel_takes_are_refused_with_the_numbers_that_work) {
  const Words wide = {"model.hidden_size=1536", "model.num_layers=1", "run.dir=" + path("wide")};
  for (const char* command : {"train", "program"}) {
    const Outcome refused = with_config(
        command, joined(on("cuda", "bf16"), joined(wide, {"model.num_attention_heads=2"})));
    EXPECT_EQ(refused.code, 2);
    EXPECT_NE(refused.text.find("heads have 768 elements, and attention on a GPU computes heads of "
                                "at most 512; choose one of 3, 4, 6, 8, 12, 16, or set"),
              std::string::npos)
        << refused.text;
  }
  const Outcome taken = with_config(
      "program", joined(on("cuda", "bf16"), joined(wide, {"model.num_attention_heads=3"})));
  EXPECT_EQ(taken.code, 0) << taken.text;
}

TEST_F(GpuCommands, more_memory_than_a_gpu_has_is_refused_in_one_line_that_says_what_to_change) {
  const Outcome outcome = with_config(
      "train",
      {"run.device=cuda", "run.dir=" + path("large"), "model.vocab_size=200000",
       "model.hidden_size=4096", "model.num_attention_heads=64", "data.split=0.9",
       "data.seq_length=8192", "train.global_batch_size=256", "train.micro_batch_size=256"});
  EXPECT_EQ(outcome.code, 5);
  EXPECT_NE(outcome.text.find("reduce train.micro_batch_size"), std::string::npos) << outcome.text;
  EXPECT_EQ(std::ranges::count(outcome.text, '\n'), 1) << outcome.text;
}

}  // namespace
}  // namespace fourfold::test
