// Rows in a frame.
#include "screen/rows.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/styled_text.h"
#include "base/text.h"

namespace fourfold::screen {
namespace {

TEST(Box, is_as_wide_as_its_widest_row) {
  EXPECT_EQ(without_styles(box("t", {{"a", "one"}, {"long", "x"}}, 80, false)),
            "+ t --------+\n"
            "| a     one |\n"
            "| long  x   |\n"
            "+-----------+");
}

TEST(Box, breaks_a_text_that_does_not_fit_below_itself) {
  const std::string text =
      "a row of words that no line of sixty columns has room for, so that it goes on below";
  const std::vector<std::string> lines =
      split(without_styles(box("t", {{"a", text}}, 60, false)), '\n');
  ASSERT_EQ(lines.size(), 4U);
  for (const std::string& line : lines) {
    EXPECT_EQ(line.size(), lines[0].size());
    EXPECT_LE(line.size(), 60U);
  }
  EXPECT_TRUE(lines[1].starts_with("| a  a row of"));
  EXPECT_TRUE(lines[2].starts_with("|    "));
}

}  // namespace
}  // namespace fourfold::screen
