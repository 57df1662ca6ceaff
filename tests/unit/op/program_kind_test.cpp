#include "op/program_kind.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace fourfold::op {
namespace {

TEST(ProgramKind, every_kind_reads_back_from_its_word_and_no_two_have_one_word) {
  std::set<std::string_view> words;
  for (const ProgramKind kind : all_program_kinds) {
    EXPECT_EQ(parse_program_kind(to_string(kind)), kind) << to_string(kind);
    words.insert(to_string(kind));
  }
  EXPECT_EQ(words.size(), static_cast<std::size_t>(ProgramKind::digest) + 1);
}

TEST(ProgramKind, words_that_no_kind_has_are_none) {
  for (const std::string_view word : {"", "trian", "Train", "train ", "all"})
    EXPECT_FALSE(parse_program_kind(word).has_value()) << word;
}

TEST(ProgramKind, the_list_of_words_names_each_kind_once) {
  EXPECT_EQ(list_program_kinds(), "init, train, evaluate, bound, prefill, decode, denoise, digest");
}

}  // namespace
}  // namespace fourfold::op
