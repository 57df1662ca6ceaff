#include <gtest/gtest.h>

#include <set>
#include <string_view>

#include "data/format.h"
#include "data/token_sets.h"

namespace fourfold::data {
namespace {

TEST(Formats, each_has_one_row_in_the_order_of_its_words) {
  std::set<std::string_view> names;
  std::size_t place = 0;
  for (const FormatRow& row : formats()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(static_cast<std::size_t>(row.format), place++) << row.name;
    EXPECT_EQ(&row_of(row.format), &row);
    EXPECT_FALSE(row.holds.empty());
  }
}

TEST(Formats, each_feeds_something_and_those_with_files_say_how_they_are_found) {
  for (const FormatRow& row : formats()) {
    EXPECT_TRUE(row.open_tokens != nullptr || row.open_pictures != nullptr) << row.name;
    EXPECT_EQ(row.is_made_up, row.path_hint.empty()) << row.name;
    EXPECT_EQ(row.is_made_up, row.describe == nullptr) << row.name;
    EXPECT_FALSE(row.has_words && row.is_of_sets) << row.name << ": sets hold tokens";
  }
}

TEST(Formats, files_that_are_not_there_are_found_by_the_row) {
  DataSpec spec;
  spec.path = "/nowhere/set";
  const auto path_of = [&](Format format) {
    spec.format = format;
    const auto missing = missing_files(spec);
    return missing.empty() ? std::string() : missing.front().path;
  };
  EXPECT_EQ(path_of(Format::text), "/nowhere/set");
  EXPECT_EQ(path_of(Format::megatron), "/nowhere/set.idx");
  EXPECT_EQ(path_of(Format::synthetic), "");
}

}  // namespace
}  // namespace fourfold::data
