#include "data/text_source.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/format.h"
#include "unit/data/expect_error.h"
#include "unit/data/packed.h"
#include "unit/data/token_files.h"

namespace fourfold::data {
namespace {

using TextSourceTest = DataFolderTest;

/// Documents, put together from their pieces.
std::vector<std::string> documents_of(TextSource source) {
  std::vector<std::string> documents;
  bool is_open = false;
  while (const auto piece = source.next()) {
    EXPECT_EQ(piece->begins_document, !is_open);
    if (!is_open) documents.emplace_back();
    documents.back() += piece->text;
    is_open = !piece->ends_document;
  }
  EXPECT_FALSE(is_open);
  return documents;
}

std::string long_text(std::size_t size) {
  std::string text;
  for (int line = 0; text.size() < size; ++line)
    text += format("line {} of a long text, caf\u00e9 \u4e2d\u6587{}", line,
                   line % 9 == 0 ? "\n\n" : "\n");
  return text;
}

TEST_F(TextSourceTest, a_file_is_one_document_and_a_folder_one_a_file_sorted_by_path) {
  std::filesystem::create_directories(path("books/b"));
  std::filesystem::create_directories(path("books/.git"));
  write_bytes(path("books/c.txt"), "third");
  write_bytes(path("books/b/2.txt"), "second");
  write_bytes(path("books/b/1.txt"), "first\n");
  write_bytes(path("books/.hidden"), "no");
  write_bytes(path("books/.git/x"), "no");
  write_bytes(path("z.txt"), "alone");
  EXPECT_EQ(documents_of(TextSource({path("z.txt"), path("books")})),
            (std::vector<std::string>{"alone", "first\n", "second", "third"}));
}

TEST_F(TextSourceTest, a_long_text_comes_in_pieces_that_add_up_to_it_and_end_behind_lines) {
  const std::string text = long_text(3'500'000);
  write_bytes(path("a.txt"), text);
  EXPECT_EQ(documents_of(TextSource({path("a.txt")})), std::vector<std::string>{text});
  TextSource source({path("a.txt")});
  std::size_t pieces = 0, at = 0;
  while (const auto piece = source.next()) {
    EXPECT_LE(piece->text.size(), (1U << 20) + 1);
    EXPECT_EQ(piece->text.back(), '\n');
    EXPECT_EQ(piece->place, at == 0 ? path("a.txt") : format("{} from byte {}", path("a.txt"), at));
    at += piece->text.size();
    ++pieces;
  }
  EXPECT_EQ(pieces, 4U);
  EXPECT_EQ(source.bytes_read(), static_cast<std::int64_t>(text.size()));
}

TEST_F(TextSourceTest, a_text_without_blanks_is_never_cut_within_a_character) {
  std::string text = "x";  // so that no character ends where a piece would
  while (text.size() < 2'500'000) text += "\u4e2d";
  write_bytes(path("a.txt"), text);
  TextSource source({path("a.txt")});
  std::string all;
  while (const auto piece = source.next()) {
    EXPECT_NE(static_cast<unsigned char>(piece->text.front()) & 0xc0, 0x80);
    all += piece->text;
  }
  EXPECT_EQ(all, text);
}

TEST_F(TextSourceTest, json_lines_hold_a_document_each) {
  const std::string lines =
      "{\"text\": \"one\\n\", \"id\": 1}\r\n\n{\"id\":2,\"text\":\"\"}\n"
      "{\"text\":\"\\u4e2d {}\"}";
  write_bytes(path("a.jsonl"), lines);
  write_bytes(path("b"), lines);
  const std::vector<std::string> expected = {"one\n", "", "\u4e2d {}"};
  EXPECT_EQ(documents_of(TextSource({path("a.jsonl")})), expected);
  EXPECT_EQ(documents_of(TextSource({path("b")})), expected) << "whatever its name";
  write_bytes(path("c"), "{a text that begins with a brace}\nand goes on");
  EXPECT_EQ(documents_of(TextSource({path("c")})).size(), 1U);
  write_bytes(path("d.jsonl"), "{\"content\": \"x\"}\n");
  EXPECT_EQ(documents_of(TextSource({path("d.jsonl")}, "content")), std::vector<std::string>{"x"});
}

TEST_F(TextSourceTest, packed_files_read_as_what_they_hold_whatever_their_name) {
  const std::string text = long_text(2'500'000);
  write_bytes(path("a"), pack_gzip(text));
  write_bytes(path("b"), pack_gzip(text.substr(0, 1'000'000)) + pack_gzip(text.substr(1'000'000)));
  write_bytes(path("c"), pack_zstd(text));
  write_bytes(path("d"), pack_zstd(text.substr(0, 999)) + pack_zstd(text.substr(999)));
  for (const char* name : {"a", "b", "c", "d"})
    EXPECT_EQ(documents_of(TextSource({path(name)})), std::vector<std::string>{text}) << name;
}

TEST_F(TextSourceTest, row_10_a_packed_file_that_is_cut_or_damaged_is_an_error) {
  const std::string text = long_text(300'000);
  for (const std::string& packed : {pack_gzip(text), pack_zstd(text)}) {
    for (std::size_t size = 64; size < packed.size(); size += packed.size() / 50) {
      write_bytes(path("a"), packed.substr(0, size));
      expect_words(user_error(ExitCode::bad_data, [&] { documents_of(TextSource({path("a")})); }),
                   {path("a"), "damaged compressed data", "ends too early"});
    }
    int found = 0;
    for (std::size_t at = 200; at < packed.size(); at += packed.size() / 50) {
      std::string damaged = packed;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
      write_bytes(path("a"), damaged);
      try {
        found += documents_of(TextSource({path("a")})) != std::vector<std::string>{text};
      } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::bad_data);
        ++found;
      }
    }
    EXPECT_GE(found, 49);
  }
}

TEST_F(TextSourceTest, a_reader_goes_on_from_any_position_as_if_it_had_not_stopped) {
  std::string lines;
  for (int i = 0; i < 60'000; ++i)
    lines += format("{{\"text\": \"document {} \\u00e9\\n with some words in it\"}}\n", i);
  write_bytes(path("a.jsonl"), lines);
  write_bytes(path("b.gz"), pack_gzip(long_text(2'200'000)));
  write_bytes(path("c.txt"), long_text(1'500'000));
  const std::vector<std::string> files = {path("a.jsonl"), path("b.gz"), path("c.txt")};
  std::vector<RawText> all;
  std::vector<TextPosition> positions;
  RawTextReader reader(files);
  while (auto raw = reader.next()) {
    all.push_back(std::move(*raw));
    positions.push_back(reader.position());
  }
  ASSERT_GT(all.size(), 7U);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    RawTextReader again(files, positions[i]);
    const auto raw = again.next();
    ASSERT_EQ(raw.has_value(), i + 1 < all.size());
    if (!raw) continue;
    EXPECT_EQ(raw->bytes, all[i + 1].bytes);
    EXPECT_EQ(raw->first_line, all[i + 1].first_line);
    EXPECT_EQ(raw->first_byte, all[i + 1].first_byte);
    EXPECT_EQ(raw->begins_file, all[i + 1].begins_file);
    EXPECT_EQ(raw->ends_file, all[i + 1].ends_file);
  }
}

TEST_F(TextSourceTest, what_is_no_text_is_said_with_file_and_line) {
  std::filesystem::create_directories(path("empty"));
  const auto message = [&](const std::string& input) {
    return user_error(ExitCode::bad_data, [&] { documents_of(TextSource({input})); });
  };
  expect_words(message(path("none")), {"none", "No such file"});
  expect_words(message(path("empty")), {"empty", "no files"});
  expect_words(message("/dev/null"), {"/dev/null", "regular file"});
  write_bytes(path("a.jsonl"), "{\"text\": \"a\"}\n{\"text\": \"b\"\n");
  expect_words(message(path("a.jsonl")), {"a.jsonl:2"});
  write_bytes(path("a.jsonl"), "{\"text\": \"a\"}\n[1]\n");
  expect_words(message(path("a.jsonl")), {"a.jsonl:2", "object"});
  write_bytes(path("a.jsonl"), "{\"txt\": \"a\", \"b\": 1}\n");
  expect_words(message(path("a.jsonl")), {"a.jsonl:1", "'text'", "--field", "txt, b"});
  write_bytes(path("a.jsonl"), "{\"text\": 7}\n");
  expect_words(message(path("a.jsonl")), {"a.jsonl:1", "another type"});
}

}  // namespace
}  // namespace fourfold::data
