// Models cut into stages as a person trains them: a GPT and a U-Net on meshes of every shape, in
// every order, stopped and gone on with other stages or none, texts and pictures, and what is said
// where stages do not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/format.h"
#include "base/text.h"
#include "checkpoint/stored_model.h"
#include "support/launched_job.h"
#include "support/picture_runs.h"

namespace fourfold {
namespace {

using test::Outcome;
using test::run_here;

/// The runs of picture models know nothing of pictures: a configuration and what it trains.
class PipelineRuns : public PictureRuns {
 protected:
  PipelineRuns() : PictureRuns("model") {}

  /// The largest difference between the weights of two runs, by tensor as a part of its largest
  /// value.
  double worst_difference(const std::string& a, const std::string& b) const {
    const auto one = checkpoint::open_model_file(path(a + "/model.safetensors"));
    const auto other = checkpoint::open_model_file(path(b + "/model.safetensors"));
    EXPECT_EQ(one->tensors().size(), other->tensors().size());
    double worst = 0;
    for (std::size_t i = 0; i < one->tensors().size(); ++i) {
      const auto& tensor = one->tensors()[i];
      EXPECT_EQ(tensor.name, other->tensors()[i].name) << "the same file but for rounding";
      worst = std::max(worst, difference(one->read(tensor), other->read(other->tensors()[i])));
    }
    return worst;
  }

  struct Change {
    Words before, after;
  };
  /// Each run is stopped half-way with some stages and gone on with others, and ends with the
  /// weights of one rank. Returns the names of the runs.
  Words expect_to_go_on(const std::vector<Change>& changes, int steps) const {
    const auto with_steps = [&](Words sets) {
      sets.push_back(format("train.steps={}", steps));
      return sets;
    };
    EXPECT_EQ(train("serial", with_steps({})).code, 0);
    Words runs;
    for (const auto& [before, after] : changes) {
      const std::string& run = runs.emplace_back(format("moved{}", runs.size() + 1));
      SCOPED_TRACE(run);
      const Outcome first =
          train(run, with_steps(before), {"--stop-at", std::to_string(steps / 2)});
      EXPECT_EQ(first.code, 0) << first.text;
      const Outcome outcome = train(run, with_steps(after));
      EXPECT_EQ(outcome.code, 0) << outcome.text;
      if (HasFailure()) return {};
      EXPECT_NEAR(last_loss(run), last_loss("serial"), 1e-10 * last_loss("serial"));
      EXPECT_LT(worst_difference(run, "serial"), 1e-9);
    }
    return runs;
  }

  /// A process of its own, which is killed once the second checkpoint has begun.
  void kill_after_a_checkpoint(const std::string& run, const Words& sets) const {
    Words words = {FOURFOLD_BINARY,       "train", config(), "--set", "run.threads=1", "--set",
                   "run.dir=" + path(run)};
    for (const std::string& set : sets) words.insert(words.end(), {"--set", set});
    const std::string folder = path("job-" + run);
    std::filesystem::create_directories(folder);
    test::LaunchedJob job(words, folder);
    ASSERT_TRUE(test::wait_until(test::hang_s, [&] {
      return job.wait(0) || file_exists(path(run + "/checkpoints/step-000000012"));
    }));
    for (const pid_t process : job.processes()) kill(process, SIGKILL);
    EXPECT_EQ(job.wait(test::hang_s), 128 + SIGKILL) << job.output();
  }

 private:
  static double difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
    std::vector<double> x(a.size() / sizeof(double)), y(b.size() / sizeof(double));
    std::memcpy(x.data(), a.data(), a.size());
    std::memcpy(y.data(), b.data(), b.size());
    double apart = 0, largest = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      apart = std::max(apart, std::abs(x[i] - y[i]));
      largest = std::max(largest, std::abs(x[i]));
    }
    return largest == 0 ? apart : apart / largest;
  }
};

class GptPipelines : public PipelineRuns {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    std::string text;
    for (int line = 0; line < 400; ++line)
      text +=
          format("line {} of a text of {} lines, {} squared is {}\n", line, 400, line, line * line);
    write_file_atomic(path("text.txt"), text);
    write_file_atomic(
        path("model.yaml"),
        "model: {num_layers: 5, num_attention_heads: 4, hidden_size: 16, dropout: 0.1,\n"
        "  max_position_embeddings: 32, vocab_size: 28}\n"
        "data: {path: " +
            path("text.txt") +
            ", seq_length: 16}\n"
            "train: {steps: 12, global_batch_size: 16, micro_batch_size: 2}\n"
            "lr_schedule: {kind: constant, warmup_steps: 0}\n"
            "eval: {interval_steps: 0, batches: 2}\n"
            "checkpoint: {interval_steps: 6}\n"
            "sample: {prompt: line, tokens: 24}\n"
            "precision: {compute: fp64}\n");
  }
};

/// Stages that differ in all that a configuration can say of them, each time in another schedule;
/// tests/parallel has each alone.
TEST_F(GptPipelines, of_any_meshes_and_orders_train_the_same_weights_and_go_on_with_others) {
  const Words of_three = {
      "parallel.pipeline={stages: 3, schedule: eager-1f1b, blocks: [1, 3, 1], "
      "weight_delay: 1, transfer_chunks: 3, "
      "meshes: [{x: 2, data: 2}, {y: 2}, {z: 2, x: 2}]}",
      "train.micro_batch_size=1", "optimizer.shard=states"};
  const Words shared = {
      "parallel.pipeline={stages: 4, stages_per_mesh: 2, schedule: interleaved, "
      "transfer: send_recv, meshes: [{x: 2}, {data: 2}]}",
      "memory.activation_checkpointing=full", "optimizer.shard=states"};
  const Words gpipe = {"parallel.pipeline={stages: 2, schedule: gpipe}", "parallel.tensor={x: 2}",
                       "parallel.pin={blocks.0.mlp.up.weight: \"[* (x), *]\"}"};
  for (const std::string& run : expect_to_go_on({{of_three, shared}, {gpipe, {}}}, 8))
    EXPECT_EQ(read_file(path(run + "/sample.txt")), read_file(path("serial/sample.txt")));
}

/// All processes of a run are killed after a checkpoint, and it goes on with other stages or none,
/// to the weights of the run that never was.
TEST_F(GptPipelines, that_are_killed_go_on_with_other_stages_or_none) {
  const Words until = {"--stop-at", "26"};
  const std::string steps = "train.steps=100000", stages = "parallel.pipeline.stages=";
  ASSERT_EQ(train("serial", {steps}, until).code, 0);
  const Words four = {stages + "4", "parallel.pipeline.schedule=eager-1f1b", steps};
  const Words shared = {"parallel.pipeline={stages: 4, stages_per_mesh: 2, schedule: interleaved}",
                        steps};
  const std::vector<std::pair<Words, Words>> changes = {
      {four, {steps}}, {shared, {stages + "2", "parallel.tensor={x: 2}", steps}}};
  int number = 0;
  for (const auto& [before, after] : changes) {
    const std::string run = format("killed{}", ++number);
    kill_after_a_checkpoint(run, before);
    const Outcome outcome = train(run, after, until);
    ASSERT_EQ(outcome.code, 0) << outcome.text;
    EXPECT_NE((outcome.output + outcome.text).find("going on from step"), std::string::npos);
    EXPECT_LT(worst_difference(run, "serial"), 1e-9) << run;
  }
}

TEST_F(GptPipelines, are_planned_with_a_line_for_each_stage) {
  const CommandResult plan = run_fourfold(
      "plan configs/gpt-tiny.yaml --set parallel.pipeline.stages=2 --set "
      "'parallel.pipeline.blocks=[1, 1]' --set train.micro_batch_size=1");
  ASSERT_EQ(plan.code, 0) << plan.text;
  const auto begin = plan.text.find("stage       blocks    ranks   parameters  in flight");
  ASSERT_NE(begin, std::string::npos) << plan.text;
  const std::vector<std::string> lines = split(plan.text.substr(begin), '\n');
  EXPECT_TRUE(lines.at(1).starts_with("0                1        1 ")) << lines[1];
  EXPECT_TRUE(lines.at(2).starts_with("1                1        1 ")) << lines[2];
  const auto in_flight = [](const std::string& line) { return line.substr(45, 6); };
  EXPECT_EQ(in_flight(lines[1]), "     2") << lines[1];
  EXPECT_EQ(in_flight(lines[2]), "     1") << lines[2];

  const CommandResult shared = run_fourfold(
      "plan configs/gpt-tiny.yaml --set model.num_layers=5 --set train.micro_batch_size=1 --set "
      "'parallel.pipeline={stages: 4, stages_per_mesh: 2, schedule: interleaved, blocks: [1, 1, 2, "
      "1]}'");
  ASSERT_EQ(shared.code, 0) << shared.text;
  EXPECT_NE(shared.text.find("\n0, 2         1 + 2        1 "), std::string::npos) << shared.text;
  EXPECT_NE(shared.text.find("\n1, 3         1 + 1        1 "), std::string::npos) << shared.text;
}

TEST_F(GptPipelines, end_with_one_clear_line_where_stages_do_not_fit) {
  const auto refused = [&](const Words& sets, int code, const Words& parts) {
    const Outcome outcome = train("refused", sets);
    EXPECT_EQ(outcome.code, code) << outcome.text;
    for (const std::string& part : parts)
      EXPECT_NE(outcome.text.find(part), std::string::npos) << part << "\n" << outcome.text;
  };
  refused({"parallel.pipeline.stages=6"}, 5,
          {"the model has 5 blocks, which cannot be cut into parallel.pipeline.stages = 6; set at "
           "most 5"});
  refused({"parallel.pipeline.stages=2", "parallel.pipeline.blocks=[2, 2]"}, 5,
          {"parallel.pipeline.blocks = [2, 2] are not 2 numbers above 0 that add up to the 5 "
           "blocks of the model"});
  refused({"parallel.pipeline.stages=2", "parallel.pipeline.blocks=[2, 2, 1]"}, 2,
          {"parallel.pipeline.blocks has 3 numbers, for parallel.pipeline.stages = 2"});
  refused({"parallel.pipeline.stages=2", "parallel.pipeline.meshes=[{x: 2}]"}, 2,
          {"parallel.pipeline.meshes has 1 grid, for parallel.pipeline.stages = 2"});
  refused({"parallel.pipeline.stages=2", "parallel.pipeline.meshes=[{x: 2}, {w: 2}]"}, 2,
          {"which is none of x, y, z, data"});
  refused({"parallel.pipeline.stages=2", "parallel.tensor={x: 2}",
           "parallel.pipeline.meshes=[{y: 2}, {y: 2}]"},
          2, {"parallel.pipeline.meshes gives each stage its grid"});
  refused({"parallel.pipeline.stages=2", "parallel.chunks=2"}, 5,
          {"the stages of a pipeline hand over whole micro-batches"});
  refused({"parallel.pipeline.stages=2", "parallel.pipeline.meshes=[{x: 2}, {data: 3}]"}, 5,
          {"stage 1 cannot divide micro-batches of 2 samples among 3 ranks"});
  refused({"parallel.pipeline.stages=2", "parallel.tensor={x: 2}",
           "parallel.pin={blocks.9.mlp.up.weight: \"[*, * (x)]\"}"},
          2,
          {"blocks.9.mlp.up.weight: no parameter and no activation has such a name; did you mean"});
  refused({"parallel.pipeline.stages=2", "parallel.pipeline.transfer=signal"}, 2,
          {"parallel.pipeline.transfer = signal passes a byte in place of a tensor",
           "set broadcast", "--set"});
  refused({"parallel.pipeline.schedule=zigzag"}, 2, {"gpipe, 1f1b, interleaved or eager-1f1b"});
  refused({"parallel.pipeline={stages: 4, stages_per_mesh: 2}"}, 2,
          {"parallel.pipeline.stages_per_mesh = 2 does not go with parallel.pipeline.schedule = "
           "1f1b"});
  refused({"parallel.pipeline={stages: 4, stages_per_mesh: 2, schedule: interleaved}",
           "train.global_batch_size=6"},
          5,
          {"an interleaved pipeline of 2 meshes cannot take 3 micro-batches, which it does in "
           "groups of 2; 2 and 4 can"});
  refused({"parallel.pipeline.weight_delay=-1"}, 2, {"none, auto or a whole number"});
}

class UnetPipelines : public PipelineRuns {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    write_small_unet();
  }
};

/// Skips pass from the stages that go down to those that go up.
TEST_F(UnetPipelines, train_the_same_weights_across_skips_and_go_on_with_other_stages) {
  const Words of_three = {
      "parallel.pipeline={stages: 3, schedule: eager-1f1b, "
      "meshes: [{data: 2}, {x: 2}, {y: 2, z: 2}]}",
      "train.micro_batch_size=2"};
  const Words of_two = {"parallel.pipeline={stages: 2, weight_delay: auto}",
                        "parallel.tensor={x: 2}"};
  expect_to_go_on({{of_three, of_two}}, 6);
}

}  // namespace
}  // namespace fourfold
