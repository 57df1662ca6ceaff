#include "tokenizer/line_sample.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tokenizer/utf8.h"
#include "unit/data/expect_error.h"

namespace fourfold::tokenizer {
namespace {

constexpr std::int64_t much = std::int64_t{1} << 30;

std::vector<std::string> take_all(LineSample& sample) {
  std::vector<std::string> lines;
  while (!sample.empty()) lines.push_back(sample.take());
  return lines;
}

TEST(LineSample, lines_go_on_over_pieces_but_not_over_documents) {
  LineSample sample(much, 100);
  sample.add("one\ntw", "a");
  sample.add("o", "a");
  sample.add("\nthree", "a");
  sample.finish();
  sample.add("four\n\n", "b");
  sample.finish();
  EXPECT_EQ(sample.lines_seen(), 5);
  EXPECT_EQ(sample.bytes_seen(), 19);
  EXPECT_EQ(take_all(sample), (std::vector<std::string>{"one", "two", "three", "four"}));
}

TEST(LineSample, long_lines_are_cut_behind_a_space_and_never_in_a_character) {
  LineSample sample(much, 16);
  std::string text = "0123456789 abcdefghij ";
  for (int i = 0; i < 20; ++i) text += "\u20AC";
  sample.add(text, "a");
  sample.finish();
  EXPECT_EQ(sample.lines_cut(), 1);
  std::string joined;
  for (const std::string& line : take_all(sample)) {
    EXPECT_LE(line.size(), 16U);
    EXPECT_EQ(well_formed_prefix(line), line.size());
    joined += line;
  }
  EXPECT_EQ(joined, text);
}

TEST(LineSample, what_is_kept_fits_and_comes_from_everywhere) {
  LineSample sample(10'000, 100);
  for (int i = 0; i < 10'000; ++i) sample.add(std::to_string(10'000 + i) + "\n", "a");
  EXPECT_LE(sample.bytes_kept(), 10'000);
  EXPECT_GE(sample.bytes_kept(), 4'000);
  std::vector<int> by_tenth(10);
  for (const std::string& line : take_all(sample))
    ++by_tenth[static_cast<std::size_t>(std::stoi(line) - 10'000) / 1000];
  // 1/8 of 1000 each: 125 with a standard deviation of 10.5; six of them.
  for (const int count : by_tenth) EXPECT_NEAR(count, 125, 63);
}

TEST(LineSample, bytes_that_are_no_utf8_are_an_error_with_their_place) {
  LineSample sample(much, 100);
  const auto message =
      user_error(ExitCode::bad_data, [&] { sample.add("ab\xFF", "x.txt from byte 10"); });
  expect_words(message, {"x.txt from byte 10", "byte 2", "0xff", "UTF-8"});
}

}  // namespace
}  // namespace fourfold::tokenizer
