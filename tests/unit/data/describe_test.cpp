#include "data/describe.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold::data {
namespace {

std::string text_of(const Description& shown, const std::string& label) {
  for (const Row& row : shown.rows)
    if (row.label == label) return row.text;
  return "no such row";
}

TEST(Describe, a_text_is_told_by_its_documents_and_its_beginning) {
  const TemporaryFolder folder;
  write_file_atomic(folder.file("a.txt"), "To be\n");
  write_file_atomic(folder.file("b.txt"), std::string(300, 'x'));
  const Description one = describe(folder.file("a.txt"), "text", {});
  EXPECT_EQ(one.title, folder.file("a.txt"));
  EXPECT_EQ(text_of(one, "what"), "1 file of text, a document each");
  EXPECT_EQ(text_of(one, "begins"), "\"To be\\n\"");
  const Description both = describe(folder.path(), "text", {});
  EXPECT_EQ(text_of(both, "documents"), "2, 306 B of text");
  expect_words(both.text, {"documents by their length in bytes, the longest 300", "256 to",
                           "           4 to             7            1  ####"});
}

TEST(Describe, names_that_are_passed_over_are_a_note) {
  const TemporaryFolder folder;
  write_file_atomic(folder.file("a.txt"), "To be\n");
  EXPECT_EQ(text_of(describe(folder.path(), "text", {}), "note"), "no such row");
  write_file_atomic(folder.file(".x"), "hidden");
  expect_words(text_of(describe(folder.path(), "text", {}), "note"),
               {"1 name passed over: ", ".x: is hidden"});
}

TEST(Describe, json_lines_are_read_by_the_field_that_is_named) {
  const TemporaryFolder folder;
  write_file_atomic(folder.file("a.jsonl"), "{\"body\": \"one\"}\n{\"body\": \"two\"}\n");
  const Description shown = describe(folder.file("a.jsonl"), "body", {});
  EXPECT_EQ(text_of(shown, "what"),
            "1 file of JSON lines, a document in the member 'body' of each line; --field names "
            "another");
  EXPECT_EQ(text_of(shown, "begins"), "\"one\"");
  EXPECT_THROW(describe(folder.file("a.jsonl"), "text", {}), UserError);
  EXPECT_THROW(describe(folder.file("none.txt"), "text", {}), UserError);
}

}  // namespace
}  // namespace fourfold::data
