#include "training_run/end_summary.h"

#include <gtest/gtest.h>

#include "base/styled_text.h"
#include "base/text.h"

namespace fourfold::training_run {
namespace {

class EndSummaryTest : public ::testing::Test {
 protected:
  /// The words of the box after so many steps on several ranks.
  std::string text_after(std::int64_t steps, int columns, bool is_unicode) {
    EndSummary summary(facts_, cores_);
    for (std::int64_t step = 1; step <= steps; ++step) {
      train::StepMetrics m;
      m.step = step;
      m.loss = 4. / static_cast<double>(step);
      m.exposed_communication_s = 0.01;
      m.peak_resident_bytes = std::int64_t{100} << 20;
      if (step == steps) m.evaluation = train::Evaluation{1.5, 1000, 2};
      summary.step(m);
    }
    train::TrainResult result;
    result.steps = steps;
    result.loss = 1.41;
    result.time_s = 0.1 * static_cast<double>(steps);
    result.evaluation_time_s = 2;
    result.items_per_s = 7680;
    result.last_evaluation = train::Evaluation{1.5, 1000, 2};
    result.best_val_loss = 1.4651;
    result.best_step = 7;
    summary.end(result);
    return without_styles(summary.text(columns, is_unicode));
  }

  std::string cores_;
  train::RunFacts facts_{.items_per_step = 768,
                         .model_flops_per_step = 4e9,
                         .peak_flops = 1e11,
                         .peak_is_measured = true,
                         .memory_bytes = std::int64_t{60} << 20};
};

TEST_F(EndSummaryTest, the_box_has_every_figure) {
  const std::string text = text_after(20, 80, false);
  for (const char* words :
       {"| steps            20, 15,360 tokens",
        "| time             2.00 s, and 2.00 s for evaluation",
        "| rate             7.68k tok/s, 40.0 GFLOP/s, MFU* 40.0% without step 1",
        "| training loss    1.4100", "| validation loss  1.5000, best 1.4651 at step 7",
        "| communication    10.0% of the steps exposed",
        "| memory           60.0 MiB planned a rank, 100 MiB resident at most"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
}

TEST_F(EndSummaryTest, where_some_is_computed_again_the_share_of_the_hardware_is_there) {
  facts_.hardware_flops_per_step = 5e9;
  const std::string text = text_after(20, 80, false);
  EXPECT_NE(
      text.find("| rate             7.68k tok/s, 40.0 GFLOP/s, MFU* 40.0%, HFU* 50.0% without"),
      std::string::npos)
      << text;
}

TEST_F(EndSummaryTest, nothing_is_said_of_evaluations_where_there_were_none) {
  EndSummary summary(facts_, cores_);
  train::StepMetrics m;
  m.step = 1;
  summary.step(m);
  train::TrainResult result;
  result.steps = 1;
  result.time_s = 0.1;
  summary.end(result);
  const std::string text = without_styles(summary.text(80, false));
  EXPECT_NE(text.find("| time           100 ms "), std::string::npos) << text;
  EXPECT_EQ(text.find("evaluation"), std::string::npos) << text;
}

TEST_F(EndSummaryTest, the_box_is_no_wider_than_the_terminal_or_80_columns) {
  facts_.peak_flops = 1e15;
  for (const int columns : {0, 64, 80, 200}) {
    const std::string text = text_after(1234567, columns, false);
    for (const std::string& line : split(text, '\n'))
      EXPECT_LE(columns_of(line), static_cast<std::size_t>(columns == 0 ? 80 : columns)) << text;
  }
}

TEST_F(EndSummaryTest, a_share_above_the_peak_is_left_out_and_known) {
  facts_.peak_flops = 3.9e10;
  const std::string text = text_after(20, 80, false);
  EXPECT_EQ(text.find("MFU"), std::string::npos) << text;
  EndSummary summary(facts_);
  train::TrainResult result;
  result.items_per_s = 7680;
  summary.end(result);
  EXPECT_TRUE(summary.exceeds_peak());
  result.items_per_s = 7000;
  summary.end(result);
  EXPECT_FALSE(summary.exceeds_peak());
}

TEST_F(EndSummaryTest, ranks_that_share_cores_are_named_beside_their_waiting) {
  cores_ = "4 ranks share 2 cores";
  EXPECT_NE(text_after(20, 80, false).find("10.0% of the steps exposed; 4 ranks share 2 cores"),
            std::string::npos);
}

TEST_F(EndSummaryTest, the_sides_of_the_box_align) {
  const auto lines = split(text_after(20, 80, true), '\n');
  for (std::size_t i = 1; lines[i - 1].find("└") == std::string::npos; ++i)
    EXPECT_EQ(columns_of(lines[i]), columns_of(lines[0])) << lines[i];
}

TEST_F(EndSummaryTest, the_curve_is_ascii_where_the_locale_is_and_fits_the_terminal) {
  const std::string ascii = text_after(50, 60, false), unicode = text_after(50, 80, true);
  EXPECT_EQ(ascii.find_first_not_of("\n"
                                    " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~"),
            std::string::npos);
  // The one in the words above the curve, and the evaluation.
  EXPECT_NE(unicode.find("●"), unicode.rfind("●"));
  const auto lines = split(ascii.substr(ascii.find("loss by step")), '\n');
  EXPECT_EQ(lines.size(), 1U + 16U);
  for (const std::string& line : lines) EXPECT_LE(line.size(), 60U) << line;
}

TEST_F(EndSummaryTest, a_few_steps_are_not_drawn) {
  EXPECT_EQ(text_after(3, 80, true).find("loss by step"), std::string::npos);
}

}  // namespace
}  // namespace fourfold::training_run
