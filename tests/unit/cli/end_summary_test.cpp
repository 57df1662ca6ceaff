#include "cli/end_summary.h"

#include <gtest/gtest.h>

#include "base/styled_text.h"
#include "base/text.h"

namespace fourfold::cli {
namespace {

class EndSummaryTest : public ::testing::Test {
 protected:
  /// The words of the box after so many steps on several ranks.
  std::string text_after(std::int64_t steps, int columns, bool is_unicode) {
    EndSummary summary(facts_);
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
    result.tokens_per_s = 7680;
    result.last_evaluation = train::Evaluation{1.5, 1000, 2};
    result.best_val_loss = 1.4651;
    result.best_step = 7;
    summary.end(result);
    return without_styles(summary.text(columns, is_unicode));
  }

  train::RunFacts facts_{.tokens_per_step = 768,
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
        "| rate             7.68k tok/s, 40.0 GFLOP/s, MFU* 40.0% without the first step |",
        "| training loss    1.4100", "| validation loss  1.5000, best 1.4651 at step 7",
        "| communication    10.0% of the steps exposed",
        "| memory           60.0 MiB planned a rank, 100 MiB resident at most"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
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
}  // namespace fourfold::cli
