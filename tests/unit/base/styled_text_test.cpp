#include "base/styled_text.h"

#include <gtest/gtest.h>

namespace fourfold {
namespace {

TEST(StyledText, styles_come_off_whole) {
  const std::string text = "a " + styled(Style::red, "bad") + " day";
  EXPECT_NE(text, "a bad day");
  EXPECT_EQ(without_styles(text), "a bad day");
  EXPECT_EQ(without_styles("plain [31m"), "plain [31m");
}

TEST(StyledText, a_letter_counts_once_and_a_style_not_at_all) {
  EXPECT_EQ(columns_of(styled(Style::bold, "é⠿x")), 3U);
}

TEST(StyledText, a_beginning_keeps_letters_whole_and_ends_its_style) {
  EXPECT_EQ(first_columns("ééé", 2), "éé");
  EXPECT_EQ(first_columns(styled(Style::dim, "abc"), 2), styled(Style::dim, "ab"));
  EXPECT_EQ(first_columns("abc", 9), "abc");
}

TEST(StyledText, control_characters_of_others_do_not_reach_a_terminal) {
  EXPECT_EQ(without_controls("a\x1b[2Jb\rc\x7f\a\td\n\xC2\x9B"
                             "31mé\xC2\xA0"),
            "a?[2Jb?c?? d\n?31mé\xC2\xA0");
}

TEST(StyledText, a_sequence_that_is_cut_off_does_no_harm) {
  EXPECT_EQ(without_styles("a\x1b["), "a");
  EXPECT_EQ(columns_of("a\x1b[3"), 1U);
}

TEST(WithoutOtherControls, styles_of_ours_stay_and_nothing_else_does) {
  EXPECT_EQ(without_other_controls(styled(Style::red, "a\tb")), styled(Style::red, "a b"));
  EXPECT_EQ(without_other_controls("\x1b[2Jm\x1b[1m\x1b[123m\x1b[m\x1b]0;m\x1b["),
            "?[2Jm\x1b[1m?[123m?[m?]0;m?[");
  EXPECT_EQ(without_other_controls("\x1b\x1b[31mx\r\xC2\x9b"), "?\x1b[31mx??");
  EXPECT_EQ(without_other_controls(""), "");
}

}  // namespace
}  // namespace fourfold
