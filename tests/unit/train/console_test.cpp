#include "train/console.h"

#include <gtest/gtest.h>

#include <sstream>
#include <vector>

namespace fourfold::train {
namespace {

class ConsoleTest : public ::testing::Test {
 protected:
  std::vector<std::string> lines() const {
    std::vector<std::string> list;
    std::istringstream text(out_.str());
    for (std::string line; std::getline(text, line);) list.push_back(line);
    return list;
  }
  static StepMetrics metrics(std::int64_t step, double time_s) {
    StepMetrics m;
    m.step = step;
    m.loss = 2.12344;
    m.lr = 9.98e-4;
    m.grad_norm = 0.871;
    m.time_s = time_s;
    m.tokens_per_s = 768 / time_s;
    m.model_flops_per_s = 4.34e9 / time_s;
    return m;
  }

  TrainSpec spec_{.run_name = "gpt",
                  .run_dir = "runs/gpt",
                  .seed = 1,
                  .steps = 2000,
                  .schedule = {},
                  .log_interval = 10,
                  .eval_interval = 0,
                  .eval_batches = 1};
  std::ostringstream out_;
};

TEST_F(ConsoleTest, lines_come_behind_the_first_step_every_interval_and_the_last) {
  spec_.steps = 25;
  Console console(out_, spec_);
  for (std::int64_t step = 1; step <= 25; ++step) console.step(metrics(step, 0.05));
  ASSERT_EQ(lines().size(), 4);
  EXPECT_EQ(lines()[0].substr(0, 11), "step  1/25 ");
  EXPECT_EQ(lines()[1].substr(0, 11), "step 10/25 ");
  EXPECT_EQ(lines()[2].substr(0, 11), "step 20/25 ");
  EXPECT_EQ(lines()[3].substr(0, 11), "step 25/25 ");
}

TEST_F(ConsoleTest, a_line_has_all_values_in_their_columns) {
  Console console(out_, spec_);
  console.step(metrics(1, 0.0612));
  EXPECT_EQ(lines().back(),
            "step    1/2000 | loss  2.1234 | gnorm  0.87 | lr 9.98e-04 | 61.2 ms | 12.5k tok/s | "
            "70.9 GFLOP/s | ETA 2m02s");
}

TEST_F(ConsoleTest, rates_are_totals_over_the_interval_and_no_means_of_rates) {
  Console console(out_, spec_);
  console.step(metrics(1, 5.0));
  for (std::int64_t step = 2; step <= 10; ++step)
    console.step(metrics(step, step == 10 ? 0.5 : 0.0625));
  // 9 steps in 1 s: 111 ms each, 6912 tokens per second.
  EXPECT_NE(lines().back().find("|  111 ms | 6.91k tok/s |"), std::string::npos) << lines().back();
}

TEST_F(ConsoleTest, the_slow_first_step_does_not_count_for_the_eta) {
  spec_.steps = 110;
  Console console(out_, spec_);
  console.step(metrics(1, 50.0));
  for (std::int64_t step = 2; step <= 10; ++step) console.step(metrics(step, 0.6));
  EXPECT_NE(lines().back().find("ETA 1m00s"), std::string::npos) << lines().back();
}

TEST_F(ConsoleTest, a_known_peak_adds_the_utilisation) {
  Console console(out_, spec_);
  StepMetrics m = metrics(1, 0.0612);
  m.mfu = 0.384;
  console.step(m);
  EXPECT_NE(lines().back().find("GFLOP/s (MFU 38.4%) | ETA"), std::string::npos) << lines().back();
}

TEST_F(ConsoleTest, an_evaluation_has_its_own_line_also_between_intervals) {
  Console console(out_, spec_);
  StepMetrics m = metrics(7, 0.05);
  m.evaluation = Evaluation{1.5, 111540, 1.25};
  console.step(m);
  m.step = 8;
  m.evaluation = Evaluation{1.75, 111540, 1.25};
  console.step(m);
  ASSERT_EQ(lines().size(), 2);
  EXPECT_EQ(lines()[0],
            "eval    7/2000 | val loss 1.5000 | best 1.5000 at step 7 | 111,540 tokens in 1.25 s");
  EXPECT_EQ(lines()[1],
            "eval    8/2000 | val loss 1.7500 | best 1.5000 at step 7 | 111,540 tokens in 1.25 s");
}

TEST_F(ConsoleTest, the_end_tells_losses_times_and_the_run_directory) {
  Console console(out_, spec_);
  TrainResult result;
  result.steps = 2000;
  result.loss = 1.41;
  result.time_s = 123;
  result.evaluation_time_s = 4.125;
  result.tokens_per_s = 12500;
  result.last_evaluation = Evaluation{1.4697, 111540, 1};
  result.best_val_loss = 1.4651;
  result.best_step = 1750;
  console.end(result);
  EXPECT_EQ(out_.str(),
            "done: 2000 steps in 2m03s, 12.5k tok/s; evaluation took 4.12 s\n"
            "loss: validation 1.4697 (best 1.4651 at step 1750), training 1.4100\n"
            "run directory: runs/gpt\n");
}

TEST_F(ConsoleTest, warnings_stand_out) {
  Console console(out_, spec_);
  console.warn("the disk is full");
  EXPECT_EQ(out_.str(), "warning: the disk is full\n");
}

}  // namespace
}  // namespace fourfold::train
