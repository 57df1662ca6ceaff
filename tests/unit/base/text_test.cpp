#include "base/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fourfold {
namespace {

TEST(Text, edit_distance_counts_single_changes) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("steps", "steps"), 0U);
  EXPECT_EQ(edit_distance("stpes", "steps"), 1U);  // a swap
  EXPECT_EQ(edit_distance("step", "steps"), 1U);
  EXPECT_EQ(edit_distance("staps", "steps"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);  // optimal string alignment: no edit inside a swap
}

TEST(Text, edit_distance_is_symmetric) {
  const std::vector<std::string> words = {"", "a", "ab", "ba", "hidden_size", "hiden_szie", "lr"};
  for (const auto& a : words)
    for (const auto& b : words)
      EXPECT_EQ(edit_distance(a, b), edit_distance(b, a)) << a << " " << b;
}

TEST(Text, the_nearest_word_is_found_only_when_it_is_near) {
  const std::vector<std::string> words = {"steps", "lr", "num_layers"};
  EXPECT_EQ(nearest("setps", words), "steps");
  EXPECT_EQ(nearest("l", words), "lr");
  EXPECT_EQ(nearest("Num-Layer", words), "num_layers");
  EXPECT_EQ(nearest("zebra", words), std::nullopt);
  EXPECT_EQ(nearest(std::string(1'000'000, 'a'), words), std::nullopt);
}

TEST(Text, splitting_and_joining_are_inverse) {
  for (const std::string text : {"", "a", "a.b", ".", "a..b."})
    EXPECT_EQ(join(split(text, '.'), "."), text);
  EXPECT_EQ(split("a.b", '.'), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(split("", '.').size(), 1U);
}

TEST(Text, trimming_takes_white_space_from_both_ends) {
  EXPECT_EQ(trim("  a b\t\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
}

}  // namespace
}  // namespace fourfold
