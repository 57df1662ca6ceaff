#include "train/session.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "schedule/learning_rate.h"
#include "unit/train/scripted_backend.h"

namespace fourfold::train {
namespace {

class Recorder : public Observer {
 public:
  void step(const StepMetrics& metrics) override { steps.push_back(metrics); }
  void end(const TrainResult&) override { ++ends; }
  std::vector<StepMetrics> steps;
  int ends = 0;
};

class SessionTest : public ::testing::Test {
 protected:
  /// A training loss of 1 / (1 + step), an evaluation loss of `val_losses_` in turn.
  op::ResultBlock respond(const ScriptedBackend::Call& call) {
    op::ResultBlock result;
    result.valid_count = call.labels;
    result.applied = call.program == op::ProgramKind::train && call.step.step != bad_step_ ? 1 : 0;
    result.grad_norm = 0.5;
    const auto tokens = static_cast<double>(call.labels);
    result.loss_sum = tokens / (1 + static_cast<double>(call.step.step));
    if (call.program != op::ProgramKind::evaluate) return result;
    const bool first_batch =
        backend_.calls.size() > 1 &&
        backend_.calls[backend_.calls.size() - 2].program == op::ProgramKind::train;
    if (first_batch) ++evaluations_;
    result.loss_sum = tokens * val_losses_.at(evaluations_ - 1);
    return result;
  }

  TrainResult train() {
    Observer* observers[] = {&recorder_};
    return fourfold::train::train(spec_, facts_, executor_, dataset_, observers);
  }

  TrainSpec spec_{.run_name = "test",
                  .run_dir = "",
                  .seed = 11,
                  .steps = 5,
                  .schedule = {},
                  .log_interval = 1,
                  .eval_interval = 2,
                  .eval_batches = 2};
  RunFacts facts_{
      .items_per_step = 96, .model_flops_per_step = 1, .peak_flops = 1e12, .memory_bytes = 4096};
  std::int64_t bad_step_ = -1;
  std::vector<double> val_losses_ = {3, 1, 2};
  std::size_t evaluations_ = 0;
  Recorder recorder_;
  const data::TokenSource dataset_{synthetic_data()};
  const program::Bundle bundle_ = training_bundle();
  ScriptedBackend backend_{[this](const ScriptedBackend::Call& call) { return respond(call); }};
  run::Executor executor_{bundle_, backend_};
};

TEST_F(SessionTest, weights_are_made_first_and_every_step_gets_its_block) {
  train();
  EXPECT_EQ(backend_.calls[0].program, op::ProgramKind::init);
  EXPECT_EQ(backend_.calls[0].step.seed, 11);
  EXPECT_EQ(backend_.count(op::ProgramKind::init), 1);
  std::int64_t step = 0;
  for (const ScriptedBackend::Call& call : backend_.calls) {
    if (call.program != op::ProgramKind::train) continue;
    EXPECT_EQ(call.step.step, step);
    EXPECT_EQ(call.step.seed, 11);
    EXPECT_EQ(call.step.lr, schedule::learning_rate(spec_.schedule, 5, step));
    EXPECT_EQ(call.step.first_sample, step * 6);
    EXPECT_EQ(call.labels, 96);
    ++step;
  }
  EXPECT_EQ(step, 5);
}

TEST_F(SessionTest, observers_see_every_step_with_its_values) {
  train();
  ASSERT_EQ(recorder_.steps.size(), 5);
  EXPECT_EQ(recorder_.ends, 1);
  const StepMetrics& metrics = recorder_.steps[3];
  EXPECT_EQ(metrics.step, 4);
  EXPECT_DOUBLE_EQ(metrics.loss, 0.25);
  EXPECT_EQ(metrics.grad_norm, 0.5);
  EXPECT_EQ(metrics.memory_bytes, 4096);
  EXPECT_GT(metrics.time_s, 0);
  EXPECT_DOUBLE_EQ(metrics.items_per_s * metrics.time_s, 96);
  EXPECT_DOUBLE_EQ(metrics.utilization.value().mfu, 1 / metrics.time_s / 1e12);
}

TEST_F(SessionTest,
       evaluations_come_at_their_interval_and_behind_the_last_step_over_the_whole_split) {
  const TrainResult result = train();
  for (const StepMetrics& metrics : recorder_.steps)
    EXPECT_EQ(metrics.evaluation.has_value(),
              metrics.step == 2 || metrics.step == 4 || metrics.step == 5);
  EXPECT_EQ(recorder_.steps[1].evaluation->items, 2 * 6 * 16) << "batches of a step's samples";
  EXPECT_EQ(recorder_.steps[4].evaluation->items, dataset_.num_validation() - 1);
  EXPECT_EQ(result.last_evaluation->loss, 2);
  EXPECT_EQ(result.best_val_loss, 1);
  EXPECT_EQ(result.best_step, 4);
  EXPECT_EQ(result.steps, 5);
  EXPECT_GT(result.items_per_s, 0);
}

TEST_F(SessionTest, with_no_interval_only_the_end_is_evaluated) {
  spec_.eval_interval = 0;
  train();
  for (const StepMetrics& metrics : recorder_.steps)
    EXPECT_EQ(metrics.evaluation.has_value(), metrics.step == 5);
}

TEST_F(SessionTest,
       a_step_begins_before_the_result_of_the_one_before_unless_the_state_is_looked_at) {
  train();
  const std::vector<StepMetrics> expected = std::exchange(recorder_.steps, {});
  EXPECT_EQ(backend_.order, "+0 -0 +1 -1 +2 -2 +3 -3 +4 -4 ");
  backend_.order.clear();
  backend_.is_ahead = true;
  evaluations_ = 0;
  train();
  // Evaluations stand after 2, 4 and 5 steps.
  EXPECT_EQ(backend_.order, "+0 +1 -0 -1 +2 +3 -2 -3 +4 -4 ");
  ASSERT_EQ(recorder_.steps.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const StepMetrics &got = recorder_.steps[i], &wanted = expected[i];
    EXPECT_EQ(got.step, wanted.step);
    EXPECT_EQ(got.loss, wanted.loss);
    EXPECT_EQ(got.lr, wanted.lr);
    EXPECT_EQ(got.evaluation.has_value(), wanted.evaluation.has_value());
    if (wanted.evaluation) {
      EXPECT_EQ(got.evaluation->loss, wanted.evaluation->loss);
    }
    EXPECT_GT(got.time_s, 0);
  }
}

TEST_F(SessionTest, steps_that_are_recorded_do_not_begin_ahead) {
  backend_.is_ahead = true;
  trace::Recorder recorder(op::ProgramKind::train,
                           bundle_.at(op::ProgramKind::train).instructions.size(), 0, 5);
  executor_.set_recorder(&recorder);
  train();
  EXPECT_EQ(backend_.order, "+0 -0 +1 -1 +2 -2 +3 -3 +4 -4 ");
  EXPECT_TRUE(recorder.is_full());
}

/// What the user reads; the code is checked on the way.
std::string stopped(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::numeric_stop);
    return error.what();
  }
  ADD_FAILURE() << "the run went on";
  return "";
}

TEST_F(SessionTest, a_step_that_was_not_applied_stops_the_run_and_names_the_bad_tensor) {
  bad_step_ = 3;
  // The third element of the weight is bad already, and the search looks there first.
  run::as<float>(executor_.bytes(op::ProgramKind::train, "weight"))[2] =
      std::numeric_limits<float>::quiet_NaN();
  const std::string text = stopped([&] { train(); });
  EXPECT_NE(text.find("stopped at step 4 of 5"), std::string::npos) << text;
  EXPECT_NE(text.find("those after step 3"), std::string::npos) << text;
  EXPECT_NE(text.find("element 2 of weight was NaN before the step"), std::string::npos) << text;
  EXPECT_EQ(recorder_.steps.size(), 3);
}

TEST_F(SessionTest, a_step_that_was_not_applied_stops_the_run_though_the_next_one_has_begun) {
  spec_.eval_interval = 0;
  backend_.is_ahead = true;
  bad_step_ = 2;
  run::as<float>(executor_.bytes(op::ProgramKind::train, "weight"))[2] =
      std::numeric_limits<float>::quiet_NaN();
  const std::string text = stopped([&] { train(); });
  EXPECT_NE(text.find("stopped at step 3 of 5"), std::string::npos) << text;
  EXPECT_NE(text.find("element 2 of weight was NaN before the step"), std::string::npos) << text;
  EXPECT_EQ(recorder_.steps.size(), 2);
  EXPECT_EQ(backend_.order, "+0 +1 -0 +2 -1 +3 -2 -3 ") << "the search begins behind all that ran";
}

TEST_F(SessionTest, a_fault_that_does_not_come_again_is_told_as_such) {
  bad_step_ = 0;
  EXPECT_NE(stopped([&] { train(); }).find("did not come again"), std::string::npos);
}

}  // namespace
}  // namespace fourfold::train
