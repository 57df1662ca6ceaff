// Whole sessions of train/ on a GPU that is not there, where each step begins before the result of
// the one before is known, against sessions whose steps wait for one another.
#include "train/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/format.h"
#include "checkpoint/load.h"
#include "data/token_source.h"
#include "support/simulated_disk.h"
#include "train/checkpoints.h"
#include "unit/run/cuda/fake_gpu.h"

namespace fourfold::run::cuda {
namespace {

using test::RunSetup;
using test::SimulatedDisk;
using test::SmallRun;

enum class Begins : std::uint8_t { in_turn, ahead };

class Backend : public CudaBackend {
 public:
  Backend(FakeGpu& gpu, Begins begins)
      : CudaBackend(gpu, FakeGpu::options()), is_ahead_(begins == Begins::ahead) {}
  bool runs_ahead() const override { return is_ahead_; }

 private:
  bool is_ahead_;
};

/// What was told of a session, times left out, and what is left of it.
struct Told : train::Observer {
  void step(const train::StepMetrics& of) override {
    lines.push_back(format("step {} loss {:a} lr {:a} norm {:a} val {:a}", of.step, of.loss, of.lr,
                           of.grad_norm, of.evaluation ? of.evaluation->loss : 0));
    if (of.step == stop_behind) stop_asked = true;
  }
  void end(const train::TrainResult& result) override { was_stopped = result.was_stopped; }
  void saving() override { lines.emplace_back("saving"); }

  std::vector<std::string> lines;
  std::int64_t stop_behind = -1;
  std::atomic<bool> stop_asked{false};
  bool was_stopped = false;
  std::string error;
  std::vector<std::byte> state;
  std::vector<std::int64_t> launches_behind_waits;
};

TEST(StepsAhead, steps_that_begin_ahead_have_the_bits_of_steps_one_by_one) {
  FakeGpu gpu;
  SmallRun one_by_one = gpu.run(RunSetup()), ahead = gpu.run(RunSetup());
  for (SmallRun* run : {&one_by_one, &ahead}) run->init(false);
  auto feeder = test::random_batch(RunSetup());
  Executor& executor = ahead.executor();
  executor.start(op::ProgramKind::train, SmallRun::block(0, 1e-2, 1), &feeder);
  for (std::int64_t step = 0; step < 6; ++step) {
    if (step < 5)
      executor.start(op::ProgramKind::train, SmallRun::block(step + 1, 1e-2, 1), &feeder);
    const op::ResultBlock got = executor.finish(), expected = one_by_one.step(feeder, step);
    EXPECT_EQ(got.loss_sum, expected.loss_sum) << step;
    EXPECT_EQ(got.grad_norm, expected.grad_norm) << step;
    EXPECT_EQ(got.applied, 1);
  }
  EXPECT_EQ(ahead.state(), one_by_one.state());
}

TEST(StepsAhead, a_step_that_began_behind_one_that_was_not_applied_is_not_applied_either) {
  FakeGpu gpu;
  SmallRun run = gpu.run(RunSetup());
  run.init(false);
  auto sound = test::random_batch(RunSetup());
  RunSetup without_labels;
  without_labels.masked = [](std::int64_t) { return true; };
  auto empty = test::random_batch(without_labels);
  Executor& executor = run.executor();
  const auto start = [&](std::int64_t step, Feeder& feeder) {
    executor.start(op::ProgramKind::train, SmallRun::block(step, 1e-2, 1), &feeder);
  };
  for (std::int64_t step = 0; step < 2; ++step) EXPECT_EQ(run.step(sound, step).applied, 1);
  const std::vector<std::byte> before = run.state();
  start(2, empty);
  start(3, sound);
  EXPECT_EQ(executor.finish().applied, 0);
  const op::ResultBlock held = executor.finish();
  EXPECT_GT(held.valid_count, 0);
  EXPECT_EQ(held.applied, 0);
  EXPECT_EQ(op::Votes::of(held.votes), op::Votes{.against = 1});
  EXPECT_EQ(run.state(), before);
  // A step that begins once the result is known is the host's own decision.
  EXPECT_EQ(run.step(sound, 4).applied, 1);
}

class CudaSession : public testing::Test {
 protected:
  CudaSession() {
    setup_.optimizer.grad_clip = 0.5;
    spec_.steps = 12;
    spec_.schedule.warmup_steps = 2;
    spec_.eval_interval = 5;
    spec_.eval_batches = 1;
    data::DataSpec synthetic;
    synthetic.format = data::Format::synthetic;
    synthetic.seq_length = setup_.plan.seq_length;
    synthetic.vocab_size = setup_.gpt.vocab_size;
    synthetic.split = 0.9999;
    dataset_.emplace(synthetic);
  }

  void run(Begins begins, Told& told, SimulatedDisk* disk = nullptr) {
    FakeGpu gpu;
    SmallRun run(setup_, kernels::cuda::own_target(), std::make_unique<Backend>(gpu, begins));
    train::Observer* observers[] = {&told};
    train::RunFacts facts;
    facts.items_per_step = setup_.plan.global_batch_size * setup_.plan.seq_length;
    train::Course course;
    std::optional<checkpoint::Store> store;
    std::optional<train::Checkpoints> checkpoints;
    const auto tell = [](const std::string&) {};
    if (disk != nullptr) {
      store.emplace(*disk, "/ckpt");
      store->prepare();
      checkpoint::Manifest manifest;
      manifest.version = "test";
      manifest.config = "model: {}\n";
      checkpoints.emplace(spec_.checkpoint, *store, run.executor(), nullptr, manifest,
                          told.stop_asked, train::Checkpoints::Tell{tell, tell});
      course.checkpoints = &*checkpoints;
    }
    try {
      train::train(spec_, facts, run.executor(), *dataset_, observers, nullptr, course);
    } catch (const UserError& error) {
      told.error = error.what();
    }
    told.launches_behind_waits = gpu.launches_behind_waits;
    told.state = run.state();
  }

  RunSetup setup_;
  train::TrainSpec spec_;
  std::optional<data::TokenSource> dataset_;
};

TEST_F(CudaSession, tells_and_leaves_the_same_whether_or_not_steps_begin_ahead) {
  spec_.checkpoint.interval_steps = 4;
  spec_.checkpoint.in_background = false;
  Told in_turn, ahead;
  SimulatedDisk disks[2];
  run(Begins::in_turn, in_turn, &disks[0]);
  run(Begins::ahead, ahead, &disks[1]);
  EXPECT_EQ(in_turn.lines.size(), 12U + 3U) << "steps, and saves behind 4, 8 and 12";
  EXPECT_EQ(ahead.lines, in_turn.lines);
  EXPECT_EQ(ahead.state, in_turn.state);
  const auto manifest = [](SimulatedDisk& disk) {
    return checkpoint::Store(disk, "/ckpt").newest().found.value().manifest;
  };
  EXPECT_EQ(manifest(disks[1]).step, 12);
  EXPECT_EQ(checkpoint::digests_in(manifest(disks[1])), checkpoint::digests_in(manifest(disks[0])));
}

TEST_F(CudaSession, keeps_the_device_busy_between_evaluations) {
  Told in_turn, ahead;
  spec_.eval_interval = 0;
  run(Begins::in_turn, in_turn);
  run(Begins::ahead, ahead);
  const auto busy = [](const Told& told) {
    return std::ranges::count(told.launches_behind_waits, 1);
  };
  EXPECT_EQ(busy(in_turn), 0);
  EXPECT_EQ(busy(ahead), 11) << "every step but the last is followed before it is waited for";
}

TEST_F(CudaSession, a_stop_that_is_asked_for_saves_what_was_done) {
  Told told;
  told.stop_behind = 5;
  SimulatedDisk disk;
  run(Begins::ahead, told, &disk);
  EXPECT_TRUE(told.was_stopped);
  // After step 5 stands an evaluation. Step 6 carries the vote, and 7 had begun when it was read.
  const auto found = checkpoint::Store(disk, "/ckpt").newest().found.value();
  EXPECT_EQ(found.manifest.step, 7);
  EXPECT_EQ(told.lines.size(), 7U + 1U);
  EXPECT_EQ(told.lines.back(), "saving");
  SmallRun loaded(setup_);
  checkpoint::load_state(disk, found, loaded.train_program(), [&](const program::Buffer& buffer) {
    return loaded.executor().bytes(buffer);
  });
  EXPECT_EQ(loaded.state(), told.state) << "the checkpoint is of the state that the run ended with";
}

TEST_F(CudaSession, numbers_that_are_not_finite_are_found_where_they_were_though_a_step_followed) {
  // Weights leave the range of float32 in the first update, losses with them.
  spec_.schedule = {.kind = schedule::LearningRateKind::constant, .lr = 1e38, .warmup_steps = 0};
  Told in_turn, ahead;
  run(Begins::in_turn, in_turn);
  run(Begins::ahead, ahead);
  EXPECT_NE(in_turn.error.find("whose update was not applied"), std::string::npos) << in_turn.error;
  EXPECT_EQ(ahead.error, in_turn.error);
  EXPECT_EQ(ahead.lines, in_turn.lines);
  EXPECT_EQ(ahead.state, in_turn.state);
}

}  // namespace
}  // namespace fourfold::run::cuda
