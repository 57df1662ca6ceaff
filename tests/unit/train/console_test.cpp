#include "train/console.h"

#include <gtest/gtest.h>

#include "unit/train/fake_screen.h"

namespace fourfold::train {
namespace {

class ConsoleTest : public ::testing::Test {
 protected:
  static StepMetrics metrics(std::int64_t step, double time_s) {
    StepMetrics m;
    m.step = step;
    m.loss = 2.12344;
    m.lr = 9.98e-4;
    m.grad_norm = 0.871;
    m.time_s = time_s;
    m.items_per_s = 768 / time_s;
    m.model_flops_per_s = 4.34e9 / time_s;
    m.peak_resident_bytes = std::int64_t{612} << 20;
    return m;
  }
  /// The facts of a job of ranks on a machine with a measured peak: every figure there is.
  static StepMetrics full_metrics(std::int64_t step) {
    StepMetrics m = metrics(step, 0.0612);
    m.exposed_communication_s = 0.00612;
    return m;
  }
  static RunFacts full_facts() {
    RunFacts facts;
    facts.peak_flops = 1.8467e11;
    facts.peak_is_measured = true;
    return facts;
  }

  TrainSpec spec_{.run_name = "gpt",
                  .run_dir = "runs/gpt",
                  .seed = 1,
                  .steps = 2000,
                  .schedule = {},
                  .log_interval = 10,
                  .eval_interval = 0,
                  .eval_batches = 1};
  FakeScreen screen_;
};

TEST_F(ConsoleTest, lines_come_behind_the_first_step_every_interval_and_the_last) {
  spec_.steps = 25;
  Console console(screen_, spec_, {});
  for (std::int64_t step = 1; step <= 25; ++step) console.step(metrics(step, 0.05));
  ASSERT_EQ(screen_.lines.size(), 4);
  EXPECT_EQ(screen_.lines[0].substr(0, 11), "step  1/25 ");
  EXPECT_EQ(screen_.lines[1].substr(0, 11), "step 10/25 ");
  EXPECT_EQ(screen_.lines[2].substr(0, 11), "step 20/25 ");
  EXPECT_EQ(screen_.lines[3].substr(0, 11), "step 25/25 ");
}

TEST_F(ConsoleTest, a_text_of_the_model_follows_its_step_and_controls_no_terminal) {
  Console console(screen_, spec_, {});
  StepMetrics m = metrics(10, 0.05);
  m.sample = "In the\n\x1b[2Jbeginning";
  console.step(m);
  ASSERT_EQ(screen_.lines.size(), 2U);
  EXPECT_EQ(screen_.lines[1], "sample after step 10:\nIn the\n?[2Jbeginning\n");
}

TEST_F(ConsoleTest, without_an_interval_the_first_ten_come_then_one_about_every_ten_seconds) {
  spec_.log_interval = std::nullopt;
  spec_.steps = 100;
  Console console(screen_, spec_, {});
  for (std::int64_t step = 1; step <= 100; ++step) console.step(metrics(step, 0.5));
  // 1 ... 10, then each 20 steps of half a second, and the last.
  ASSERT_EQ(screen_.lines.size(), 15);
  EXPECT_EQ(screen_.lines[9].substr(0, 12), "step  10/100");
  EXPECT_EQ(screen_.lines[10].substr(0, 12), "step  30/100");
  EXPECT_EQ(screen_.lines[14].substr(0, 12), "step 100/100");
}

TEST_F(ConsoleTest, a_file_has_all_values_in_their_columns) {
  Console console(screen_, spec_, full_facts());
  console.step(full_metrics(1));
  EXPECT_EQ(screen_.lines.back(),
            "step    1/2000 | loss  2.1234 | gnorm  0.87 | lr 9.98e-04 | 61.2 ms | 12.5k tok/s | "
            "70.9 GFLOP/s | MFU* 38.4% | exposed 10.0% | mem  612 MiB | ETA 2m02s");
}

TEST_F(ConsoleTest,
       where_some_is_computed_again_the_share_of_the_hardware_stands_beside_the_models) {
  RunFacts facts = full_facts();
  facts.model_flops_per_step = 72;
  facts.hardware_flops_per_step = 96;
  FakeScreen screen(176);
  for (FakeScreen* one : {&screen, &screen_}) Console(*one, spec_, facts).step(full_metrics(1));
  EXPECT_NE(screen_.lines.back().find("| MFU* 38.4% | HFU* 51.2% | exposed"), std::string::npos)
      << screen_.lines.back();
  EXPECT_EQ(screen.lines.back(), screen_.lines.back());
}

TEST_F(ConsoleTest, a_peak_that_the_hardware_exceeds_is_doubted_though_the_model_does_not) {
  RunFacts facts = full_facts();
  facts.model_flops_per_step = 72;
  facts.hardware_flops_per_step = 96;
  facts.peak_flops = 8e10;
  Console console(screen_, spec_, facts);
  console.step(metrics(1, 0.0612));
  ASSERT_EQ(screen_.lines.size(), 2U);
  EXPECT_NE(screen_.lines[0].find("the steps compute 94.6 GFLOP/s, more than the 80.0 GFLOP/s"),
            std::string::npos)
      << screen_.lines[0];
  EXPECT_NE(screen_.lines[1].find("| MFU*    -  | HFU*    -  |"), std::string::npos)
      << screen_.lines[1];
}

TEST_F(ConsoleTest, one_rank_without_a_peak_has_no_column_of_them) {
  Console console(screen_, spec_, {});
  console.step(metrics(1, 0.0612));
  EXPECT_EQ(screen_.lines.back(),
            "step    1/2000 | loss  2.1234 | gnorm  0.87 | lr 9.98e-04 | 61.2 ms | 12.5k tok/s | "
            "70.9 GFLOP/s | mem  612 MiB | ETA 2m02s");
}

TEST_F(ConsoleTest, a_terminal_of_80_columns_has_the_most_important_ones) {
  FakeScreen screen(80);
  Console console(screen, spec_, full_facts());
  console.step(full_metrics(1));
  EXPECT_EQ(screen.lines.back(),
            "step    1/2000 | loss  2.1234 | gnorm  0.87 | 61.2 ms | 12.5k tok/s | ETA 2m02s");
}

TEST_F(ConsoleTest, a_terminal_of_160_columns_has_them_all) {
  FakeScreen screen(160);
  Console(screen, spec_, full_facts()).step(full_metrics(1));
  Console(screen_, spec_, full_facts()).step(full_metrics(1));
  EXPECT_EQ(screen.lines.back(), screen_.lines.back());
}

TEST_F(ConsoleTest, lines_align_and_keep_their_columns_to_the_last) {
  FakeScreen screen(80);
  spec_.steps = 20;
  Console console(screen, spec_, full_facts());
  for (std::int64_t step = 1; step <= 20; ++step) console.step(full_metrics(step));
  ASSERT_EQ(screen.lines.size(), 3);
  for (const std::string& line : screen.lines) {
    EXPECT_LE(line.size(), 80U) << line;
    EXPECT_EQ(line.find("loss"), screen.lines[0].find("loss")) << line;
    EXPECT_EQ(line.find("tok/s"), screen.lines[0].find("tok/s")) << line;
  }
  EXPECT_EQ(screen.lines.back().find("ETA"), std::string::npos);
}

TEST_F(ConsoleTest, rates_are_totals_over_the_interval_and_no_means_of_rates) {
  Console console(screen_, spec_, {});
  console.step(metrics(1, 5.0));
  for (std::int64_t step = 2; step <= 10; ++step)
    console.step(metrics(step, step == 10 ? 0.5 : 0.0625));
  // 9 steps in 1 s: 111 ms each, 6912 tokens per second.
  EXPECT_NE(screen_.lines.back().find("|  111 ms | 6.91k tok/s |"), std::string::npos)
      << screen_.lines.back();
}

TEST_F(ConsoleTest, the_slow_first_step_does_not_count_for_the_eta) {
  spec_.steps = 110;
  Console console(screen_, spec_, {});
  console.step(metrics(1, 50.0));
  for (std::int64_t step = 2; step <= 10; ++step) console.step(metrics(step, 0.6));
  EXPECT_NE(screen_.lines.back().find("ETA 1m00s"), std::string::npos) << screen_.lines.back();
}

TEST_F(ConsoleTest, a_peak_that_is_known_of_the_device_has_no_star) {
  RunFacts facts = full_facts();
  facts.peak_is_measured = false;
  Console console(screen_, spec_, facts);
  console.step(metrics(1, 0.0612));
  EXPECT_NE(screen_.lines.back().find("| MFU 38.4% |"), std::string::npos) << screen_.lines.back();
}

TEST_F(ConsoleTest, a_share_above_the_peak_is_not_shown_and_one_line_says_why) {
  RunFacts facts = full_facts();
  facts.peak_flops = 6e10;
  spec_.log_interval = 1;
  Console console(screen_, spec_, facts);
  console.step(metrics(1, 0.0612));
  console.step(metrics(2, 0.0612));
  console.step(metrics(3, 0.1));
  std::size_t doubts = 0;
  for (const std::string& line : screen_.lines)
    doubts += line.find("it was busy then") != std::string::npos ? 1 : 0;
  EXPECT_EQ(doubts, 1U);
  ASSERT_EQ(screen_.lines.size(), 4U);
  EXPECT_NE(screen_.lines[1].find("| MFU*    -  |"), std::string::npos) << screen_.lines[1];
  EXPECT_NE(screen_.lines[3].find("| MFU* 72.3% |"), std::string::npos) << screen_.lines[3];
}

TEST_F(ConsoleTest, an_evaluation_has_its_own_line_also_between_intervals) {
  Console console(screen_, spec_, {});
  StepMetrics m = metrics(7, 0.05);
  m.evaluation = Evaluation{1.5, 111540, 1.25};
  console.step(m);
  m.step = 8;
  m.evaluation = Evaluation{1.75, 111540, 1.25};
  console.step(m);
  // The last one takes the whole split, and is compared by what all take.
  m.step = 2000;
  m.evaluation = Evaluation{1.25, 111540, 1.25};
  m.evaluation->compared_items = 1000;
  m.evaluation->compared_loss = 1.375;
  console.step(m);
  ASSERT_EQ(screen_.lines.size(), 4);
  EXPECT_EQ(screen_.lines[3],
            "eval 2000/2000 | val loss 1.2500 of the whole split | best 1.3750 at step 2000 | "
            "111,540 tokens in 1.25 s");
  EXPECT_EQ(screen_.lines[0],
            "eval    7/2000 | val loss 1.5000 | best 1.5000 at step 7 | 111,540 tokens in 1.25 s");
  EXPECT_EQ(screen_.lines[1],
            "eval    8/2000 | val loss 1.7500 | best 1.5000 at step 7 | 111,540 tokens in 1.25 s");
}

}  // namespace
}  // namespace fourfold::train
