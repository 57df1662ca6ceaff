// A text as windows of tokens and labels.
#include "train/token_scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "data/source.h"
#include "train/tracing.h"

namespace fourfold::train {
namespace {

TEST(TokenScores, each_token_but_the_first_is_a_label_once) {
  const Windows windows({5, 6, 7, 8, 9, 10}, 2);
  EXPECT_EQ(windows.labels(), 5);
  EXPECT_EQ(windows.count(), 3);
  EXPECT_EQ(windows.at(0, false), 5);
  EXPECT_EQ(windows.at(0, true), 6);
  EXPECT_EQ(windows.at(4, true), 10);
  EXPECT_EQ(windows.at(5, true), data::no_label);  // the last window is not full
  EXPECT_EQ(windows.at(5, false), 0);
}

TEST(TokenScores, the_loss_is_the_mean_of_what_each_token_costs) {
  const TokenScores scores{.log_probabilities = {-1, -2, -6}, .logits = {}, .vocab_size = 0};
  EXPECT_EQ(scores.mean_loss(), 3);
}

TEST(Tracing, needs_steps_that_warm_up_before_the_first) {
  EXPECT_NO_THROW(check_trace(1, 0));
  EXPECT_NO_THROW(check_trace(5, 3));
  EXPECT_THROW(check_trace(4, 3), UserError);
}

}  // namespace
}  // namespace fourfold::train
