// What a file of texts is taken for: whole records are looked at, members that nobody asks for do
// not matter, and what would be read as something else is refused.
#include "data/text_form.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/text_source.h"
#include "unit/data/expect_error.h"
#include "unit/data/packed.h"
#include "unit/data/token_files.h"

namespace fourfold::data {
namespace {

using Texts = std::vector<std::string>;

class TextFormTest : public DataFolderTest {
 protected:
  /// The documents of a file of these bytes.
  Texts documents(const std::string& name, const std::string& bytes) const {
    write_bytes(path(name), bytes);
    TextSource source({path(name)});
    Texts texts;
    bool is_open = false;
    while (const auto piece = source.next()) {
      if (is_open)
        texts.back() += piece->text;
      else
        texts.push_back(piece->text);
      is_open = !piece->ends_document;
    }
    return texts;
  }
  std::string refusal(const std::string& name, const std::string& bytes) const {
    return user_error(ExitCode::bad_data, [&] { documents(name, bytes); });
  }
};

std::string line_of(const std::string& text) {
  return Json::object().set("text", text).set("id", 1).dump() + "\n";
}

TEST_F(TextFormTest, a_first_line_longer_than_a_stretch_is_still_a_line_of_json) {
  std::string words;
  while (words.size() < 1500000) words += "word ";
  const Texts expected = {words, "b", "c"};
  EXPECT_EQ(documents("part-000", line_of(words) + line_of("b") + line_of("c")), expected);
  EXPECT_EQ(documents("alone", line_of(words)), Texts{words});
}

TEST_F(TextFormTest, blank_lines_and_a_mark_before_the_first_line_change_nothing) {
  const std::string lines = line_of("a") + line_of("b");
  const Texts expected = {"a", "b"};
  EXPECT_EQ(documents("blank", "\n \r\n" + lines), expected);
  EXPECT_EQ(documents("marked", "\xEF\xBB\xBF" + lines), expected);
  EXPECT_EQ(documents("marked.jsonl", "\xEF\xBB\xBF" + lines), expected);
  EXPECT_EQ(documents("set.ndjson", lines), expected);
  EXPECT_EQ(documents("returns", "{\"text\":\"a\"}\r\n{\"text\":\"b\"}\r\n"), expected);
}

TEST_F(TextFormTest, a_damaged_first_line_does_not_make_a_text_of_the_others) {
  expect_words(refusal("part-0", "{\"text\":\"a\",}\n" + line_of("b")), {"part-0:1:", "not valid"});
  expect_words(refusal("part-1", "{\"text\":\"a\n" + line_of("b")), {"part-1:1:", "not valid"});
}

TEST_F(TextFormTest, json_that_is_no_lines_is_refused_with_what_makes_lines_of_it) {
  const std::string array = "[{\"text\": \"a\"}, {\"text\": \"b\"}]";
  expect_words(refusal("docs.json", array),
               {"docs.json: is an array of JSON", "jq -c '.[]' " + path("docs.json")});
  expect_words(refusal("lines.json", "[\n {\"text\":\n \"a\"}\n]\n"), {"is an array of JSON"});
  expect_words(refusal("words.json", "[\"a b\", \"c d\"]"), {"is an array of JSON"});
  expect_words(refusal("one.json", "{\n \"text\": \"a\"\n}"),
               {"one.json: is an object of JSON in several lines", "jq -c '.' "});
  expect_words(refusal("many.json", "{\n \"text\": \"a\"\n}\n{\n \"text\": \"b\"\n}\n"),
               {"in several lines"});
  expect_words(refusal("side", "{\"text\":\"a\"}{\"text\":\"b\"}\n"), {"several objects of JSON"});
  // What the message says to do works.
  EXPECT_EQ(documents("docs.txt", array), Texts{array});
  std::string first;
  while (first.size() < (3U << 20)) first += "long ";
  expect_words(refusal("long", "[" + line_of(first) + "," + line_of("b") + "]"), {"is an array"});
}

TEST_F(TextFormTest, values_with_commas_between_them_are_refused) {
  const std::string lines = "{\"text\":\"a\"},\n{\"text\":\"b\"},\n";
  expect_words(refusal("commas", lines),
               {"commas: has values of JSON with commas between them", "jq -c '.[]'",
                "(echo '['; sed '$s/,[[:space:]]*$//' " + path("commas")});
  for (const std::string text :
       {"{\"text\":\"a\"},\n", "{\"text\":\"a\"} , \r\n\n{\"text\":\"b\"}",
        "{\n\"text\":\"a\"\n},\n{\n\"text\":\"b\"\n}\n", "[\"a\",\"b\"],\n[\"c\",\"d\"],\n"})
    expect_words(refusal("commas", text), {"with commas between them"});
  EXPECT_EQ(documents("commas.txt", lines), Texts{lines});
  const std::string many = line_of(std::string(600000, 'x'));
  const std::string with_comma = many.substr(0, many.size() - 1) + ",\n";
  expect_words(refusal("long", with_comma + with_comma + with_comma), {"commas between them"});
}

TEST_F(TextFormTest, json_lines_after_a_first_line_that_is_no_object_are_refused) {
  for (const std::string first : {"null", "42", "\"head\"", "[1, 2]", "[\"a\"]", "true "}) {
    const std::string text = first + "\n{\"text\":\"a\"}\n";
    expect_words(refusal("lines", text),
                 {"lines: has lines of JSON after a first line that is no object",
                  "tail -n +2 " + path("lines") + " | jq -c '.'"});
    EXPECT_EQ(documents("lines.txt", text), Texts{text});
  }
  expect_words(refusal("lines", "# from a crawl\n" + line_of("a") + line_of("b")),
               {"after a first line that is no object"});
  std::string many = "exported 2026-11-29\n";
  while (many.size() < (3U << 20)) many += line_of(std::string(1000, 'x'));
  expect_words(refusal("many", many), {"after a first line that is no object"});
}

TEST_F(TextFormTest, arrays_of_any_items_are_refused) {
  for (const std::string text :
       {"[{\"a\":1},\"b\"]", "[[\"a\", 1], [\"b\", 2]]\n", "[[1, 2], [3]]",
        "[null,{\"text\":\"a\"}]", "[1, \"a\"]", "[\"a\"]", "[{\"text\":\"a\"},\"cut off",
        "[null,{\"text\":\"a\"", "[{\"a\":1},\"b\",]", "[\"a\",\"b\"]\n[\"c\",\"d\"]\n"})
    expect_words(refusal("docs.json", text), {"docs.json: is an array of JSON", "jq -c '.[]"});
}

TEST_F(TextFormTest, what_a_refusal_says_to_do_makes_lines_of_the_same_texts) {
  if (std::system("command -v jq > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no jq";
  const std::string a = "{\"text\":\"a\"}", b = "{\n \"text\": \"b\"\n}";
  for (const std::string& content :
       {"[" + a + ", " + b + "]", std::string("[\"a\", \"b\"]"), b + "\n" + b, a + a,
        a + ",\n" + a + ",\n", a + ",\n" + a, b + ",\n" + b + " , \r\n", "null\n" + a + "\n" + a,
        "# a head\n" + a + "\n" + a + "\n"}) {
    const std::string told = refusal("set", content), before = "write the lines with ";
    const std::size_t begin = told.find(before) + before.size();
    const std::string command = told.substr(begin, told.find(" > LINES.jsonl") - begin);
    ASSERT_EQ(std::system((command + " > " + path("made")).c_str()), 0) << command;
    const Texts made = documents("lines.jsonl", read_bytes(path("made")));
    ASSERT_EQ(made.size(), 2U) << command;
    EXPECT_EQ(made[0], content.find("\"a\"") == content.npos ? "b" : "a");
  }
}

/// Poems, mark-up, settings, sources, logs: what begins as JSON does and is none.
TEST_F(TextFormTest, real_texts_that_begin_with_a_bracket_stay_texts) {
  for (const std::string text : {"[Verse 1]\nO rose\n\n[Chorus]\nO rose\n",
                                 "[12:30] <ann> hi\n[12:31] <bob> hello\n",
                                 "[1] Knuth\n[2] Lamport\n",
                                 "[1, 2, 3]\n",
                                 "[1, \"Art\", 1968] is a citation\n",
                                 "[    0.000000] Linux version 6\n",
                                 "[package]\nname = \"x\"\n",
                                 "[[bin]]\nname = \"x\"\n",
                                 "[\"a\", \"b\"].each do |x|\n  puts x\nend\n",
                                 "[[\"a\", 1], [\"b\", 2]].each do |x|\nend\n",
                                 "[\"a\", \"b\"] is a list\n",
                                 "[[1], [2]] and more\n",
                                 "[]\n[]\n",
                                 "{\\bf bold} and {\\it not}\n",
                                 "{-# LANGUAGE GADTs #-}\nmodule Main where\n",
                                 "{ \"a\", 1 },\n{ \"b\", 2 },\n",
                                 "{% extends \"a.html\" %}\n{% block b %}\n",
                                 "{{ title }}\n{{ date }}\n",
                                 "{\n  echo hi\n}\n",
                                 "{\"a\": 1}.to_json\n",
                                 "{\"a\": 1}, said the machine\nand no more\n",
                                 "\"Well,\" she said.\n{\"a\": 1} is it.\n",
                                 "An example:\n{\"a\": 1}\n",
                                 "An example:\n{\"a\": 1}\n{\"b\": 2}\nand so on\n",
                                 "main()\n{}\n{}\n",
                                 "null\nand void\n",
                                 "7\n{ x }\n",
                                 "\"a\"\n",
                                 "null",
                                 "null\n{"})
    EXPECT_EQ(documents("a", text), Texts{text}) << text;
}

TEST_F(TextFormTest, a_text_that_begins_like_json_stays_a_text) {
  for (const std::string text :
       {"[[File:map.png]] is a map.\n", "[1] Knuth, The Art.\n", "{\\rtf1 x}\n", "{ int x; }\n",
        "[\"Ha!\" she said]\n", "[\"a\"] is a list\n", "{\"a\": 1} is an object\nand so on\n", "{",
        "[", "[{", "{\"", "{\"a\"", "{\"text\": \"no end", "   \n", "[\"a", "[]", "{]"})
    EXPECT_EQ(documents("a", text), Texts{text}) << text;
  EXPECT_TRUE(documents("empty", "").empty() || documents("empty", "") == Texts{""});
}

TEST_F(TextFormTest, members_that_nobody_asks_for_may_hold_anything) {
  for (const char* other :
       {"18446744073709551615", "1180591620717411303424", "NaN", "-Infinity",
        "[Infinity,{\"b\":NaN}]", "1, \"x\": 2", "\"\\ud800\"", "\"\xFF\"", "{\"text\": NaN}"}) {
    const std::string line = std::string("{\"x\": ") + other + ", \"text\": \"a \\\"b\\\"\"}\n";
    EXPECT_EQ(documents("a.jsonl", line), Texts{"a \"b\""}) << line;
    EXPECT_EQ(documents("a", line), Texts{"a \"b\""}) << line;
  }
  std::string deep = "1";
  for (int level = 0; level < 100; ++level) deep = "[" + deep + "]";
  EXPECT_EQ(documents("a.jsonl", "{\"x\":" + deep + ",\"te\\u0078t\":\"a\"}"), Texts{"a"});
}

TEST_F(TextFormTest, what_is_asked_for_is_read_strictly) {
  for (const char* line :
       {"{\"text\": NaN}", "{\"text\": \"a\", \"text\": \"b\"}", "{\"text\": \"\\ud800\"}",
        "{\"text\": \"a\", \"x\": nan}", "{\"text\": \"a\", \"x\": tru}", "{\"text\": \"a\"} x",
        "{\"text\": \"a\", \"x\": [1}", "{\"text\": \"a\" \"x\": NaN}", "{\"text\": \"a\", NaN}"})
    expect_words(refusal("a.jsonl", line), {"a.jsonl:1"});
}

TEST_F(TextFormTest, the_reader_tells_what_files_were_taken_for) {
  write_bytes(path("a.jsonl"), line_of("a"));
  write_bytes(path("b.txt"), "text");
  write_bytes(path("c"), line_of("c"));
  RawTextReader reader({path("a.jsonl"), path("b.txt"), path("c")});
  while (reader.next()) continue;
  expect_words(reader.forms("text"), {"2 files of JSON lines", "'text'", "1 file of text"});
}

TEST_F(TextFormTest, zeros_that_pad_a_packed_file_are_passed_over) {
  const std::string text = "first member. ", packed = pack_gzip(text);
  EXPECT_EQ(documents("a.gz", packed + std::string(512, '\0')), Texts{text});
  EXPECT_EQ(documents("b.gz", packed + packed + std::string(1, '\0')), Texts{text + text});
  // More than is read at once.
  EXPECT_EQ(documents("c.gz", packed + std::string(1 << 19, '\0')), Texts{text});
  expect_words(refusal("d.gz", packed + std::string(512, '\0') + packed), {"damaged", "bring"});
  expect_words(refusal("e.gz", packed + std::string(1 << 19, '\0') + "x"), {"damaged"});
  expect_words(refusal("f.gz", packed + "x"), {"damaged"});
}

}  // namespace
}  // namespace fourfold::data
