#include "base/screen.h"

#include <gtest/gtest.h>

#include "base/styled_text.h"

namespace fourfold {
namespace {

const std::vector<Cell> cells = {{"first", 3}, {"second", 1}, {"third", 2}};

TEST(Fit, a_line_without_a_limit_has_all_cells_in_order) {
  EXPECT_EQ(fit(cells, 0), "first | second | third");
  EXPECT_EQ(fit(cells, 22), "first | second | third");
}

TEST(Fit, the_least_important_ones_go_first_and_the_order_stays) {
  EXPECT_EQ(fit(cells, 21), "first | third");
  EXPECT_EQ(fit(cells, 12), "first");
}

TEST(Fit, the_most_important_one_stays_however_narrow) {
  EXPECT_EQ(fit(cells, 2), "first");
}

TEST(Fit, styles_take_no_columns_and_blanks_at_the_end_go) {
  const std::vector<Cell> styled_cells = {{styled(Style::green, "good"), 1}, {"x   ", 2}};
  EXPECT_EQ(without_styles(fit(styled_cells, 11)), "good | x");
  EXPECT_EQ(fit(std::vector<Cell>{{"x", 1}, {"    ", 2}}, 0), "x");
}

}  // namespace
}  // namespace fourfold
