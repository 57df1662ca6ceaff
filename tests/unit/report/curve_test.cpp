#include "report/curve.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/styled_text.h"
#include "base/text.h"

namespace fourfold::report {
namespace {

std::vector<Point> falling(std::size_t count) {
  std::vector<Point> points;
  for (std::size_t i = 1; i <= count; ++i)
    points.push_back({static_cast<double>(i),
                      4 * std::exp(-3. * static_cast<double>(i) / static_cast<double>(count))});
  return points;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines = split(text, '\n');
  lines.pop_back();
  return lines;
}

TEST(Curve, a_drawing_has_its_size_and_without_unicode_is_ascii) {
  for (const bool is_unicode : {false, true}) {
    const auto lines = lines_of(draw_curve(falling(500), {}, {80, 16, is_unicode}));
    ASSERT_EQ(lines.size(), 16U);
    for (const std::string& line : lines) {
      EXPECT_LE(columns_of(line), 80U) << line;
      const bool is_ascii =
          std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c < 127; });
      EXPECT_TRUE(is_ascii || is_unicode) << line;
    }
  }
}

TEST(Curve, it_falls_from_the_upper_left_to_the_lower_right) {
  const auto lines = lines_of(draw_curve(falling(500), {}, {60, 16, false}));
  EXPECT_EQ(lines[0].find('*'), 9U) << lines[0];
  EXPECT_EQ(lines[13].rfind('*'), 59U) << lines[13];
  std::size_t before = 0;
  for (std::size_t row = 0; row < 14; ++row) {
    const std::size_t at = lines[row].find('*');
    EXPECT_GE(at, before) << lines[row];
    before = at;
  }
}

TEST(Curve, axes_carry_the_ends_of_their_ranges) {
  const auto lines = lines_of(draw_curve(std::vector<Point>{{1, 3}, {250, 2}, {500, 1}}, {}, {}));
  EXPECT_TRUE(lines[0].starts_with("      3 +")) << lines[0];
  EXPECT_TRUE(lines[13].starts_with("      1 +")) << lines[13];
  EXPECT_TRUE(lines[15].starts_with("         1 ")) << lines[15];
  EXPECT_TRUE(lines[15].ends_with(" 500")) << lines[15];
}

TEST(Curve, a_braille_letter_holds_the_dots_of_its_place) {
  // A flat line in the middle: dots of one row of each letter.
  const std::string text =
      draw_curve(std::vector<Point>{{0, 1}, {1, 1}, {2, 1}, {3, 1}}, {}, {40, 8, true});
  EXPECT_NE(text.find("⣀⣀⣀"), std::string::npos) << text;
}

TEST(Curve, marks_lie_over_the_curve) {
  const std::vector<Point> marks = {{250, 2}};
  const std::string text = draw_curve(falling(500), marks, {60, 16, false});
  EXPECT_EQ(std::count(text.begin(), text.end(), 'o'), 1);
}

TEST(Curve, values_that_are_not_finite_break_nothing) {
  const std::vector<Point> good = falling(20);
  std::vector<Point> points = good;
  points.insert(points.begin() + 3, {3.5, std::numeric_limits<double>::quiet_NaN()});
  points.push_back({1e9, std::numeric_limits<double>::infinity()});
  points.push_back({std::numeric_limits<double>::quiet_NaN(), 1});
  EXPECT_EQ(draw_curve(points, {}, {60, 16, false}), draw_curve(good, {}, {60, 16, false}));
}

TEST(Curve, too_little_to_draw_or_no_place_draws_nothing) {
  EXPECT_EQ(draw_curve(falling(1), {}, {}), "");
  EXPECT_EQ(draw_curve({}, {}, {}), "");
  EXPECT_EQ(draw_curve(falling(9), {}, {12, 16, false}), "");
}

TEST(Series, a_curve_of_any_length_keeps_its_ends_and_bounded_memory) {
  Series series;
  const std::int64_t count = 1'000'000;
  for (std::int64_t i = 0; i < count; ++i)
    series.add({static_cast<double>(i), i < count / 2 ? 2. : 1.});
  const auto points = series.points();
  EXPECT_LE(points.size(), Series::most);
  EXPECT_GE(points.size(), Series::most / 2 - 1);
  EXPECT_EQ(points.front().y, 2);
  EXPECT_EQ(points.back().y, 1);
  EXPECT_NEAR(points.back().x, static_cast<double>(count), static_cast<double>(count) / 1000);
}

TEST(Series, a_short_one_is_kept_as_it_is) {
  Series series;
  series.add({1, 5});
  series.add({2, 4});
  ASSERT_EQ(series.points().size(), 2U);
  EXPECT_EQ(series.points()[1].y, 4);
}

}  // namespace
}  // namespace fourfold::report
