#include "base/yaml.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "support/hostile_files.h"
#include "support/print_words.h"

namespace fourfold {
namespace {

/// Everything that is wrong with the text, printed.
std::string problems_of(const std::string& text) {
  std::vector<Diagnostic> problems;
  parse_yaml(text, "a.yaml", problems);
  std::string result;
  for (const Diagnostic& problem : problems) result += print(problem) + "\n";
  return result;
}

YamlNode root_of(const std::string& text) {
  std::vector<Diagnostic> problems;
  YamlDocument document = parse_yaml(text, "a.yaml", problems);
  EXPECT_TRUE(problems.empty()) << print(problems.front());
  return document.root;
}

TEST(Yaml, maps_lists_and_scalars_keep_order_and_places) {
  const YamlNode root = root_of("b: [1, two]\na:\n  c: \"8\"\n  d:\n");
  ASSERT_EQ(root.members.size(), 2U);
  EXPECT_EQ(root.members[0].key.text, "b");
  EXPECT_EQ(root.members[0].value.items.at(1).text, "two");
  EXPECT_EQ(root.members[0].value.items.at(1).column, 8U);
  const auto& inner = root.members[1].value.members;
  EXPECT_EQ(inner.at(0).value.text, "8");
  EXPECT_TRUE(inner.at(0).value.quoted);
  EXPECT_EQ(inner.at(0).value.line, 3U);
  EXPECT_EQ(inner.at(0).value.column, 6U);
  EXPECT_EQ(inner.at(1).value.kind, YamlNode::Kind::null);
  EXPECT_EQ(inner.at(1).value.line, 4U);
}

TEST(Yaml, plain_scalars_stay_text) {
  for (const std::string text :
       {"010", "1_000", "8e9", "yes", "on", "True", "1e-4", ".5", "0x10"}) {
    const YamlNode root = root_of("a: " + text);
    EXPECT_EQ(root.members[0].value.text, text);
    EXPECT_FALSE(root.members[0].value.quoted);
  }
}

TEST(Yaml, an_empty_file_is_nothing) {
  for (const char* text : {"", "\n\n", "# a comment\n", "---\n", "\xEF\xBB\xBF"})
    EXPECT_EQ(root_of(text).kind, YamlNode::Kind::null);
}

TEST(Yaml, windows_line_ends_and_a_byte_order_mark_are_read) {
  const YamlNode root = root_of(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: x\r\n");
  EXPECT_EQ(root.members.at(0).value.text, "1");
  EXPECT_EQ(root.members.at(1).value.text, "x");
}

TEST(Yaml, quoted_text_reads_back_to_the_same_bytes) {
  for (const std::string text :
       {"", "\n", "a\tb\\\"c", "yes", "\u00e9\u4e2d", "\x01\x1f\x7f", ": - #", " a "})
    EXPECT_EQ(root_of("a: " + yaml_quoted(text)).members.at(0).value.text, text);
}

TEST(Yaml, a_value_of_a_line_has_places_counted_from_its_beginning) {
  std::vector<Diagnostic> problems;
  const auto document = parse_yaml_value("a.b=[1, x]", 4, "--set #1", problems);
  ASSERT_TRUE(problems.empty());
  EXPECT_EQ(document.root.items.at(1).column, 9U);
  EXPECT_EQ(print(document.problem_at(document.root.items[1], "no", "")),
            "--set #1: error: no\n      | a.b=[1, x]\n      |         ^");
}

struct Case {
  std::string text, expected;
};

void PrintTo(const Case& c, std::ostream* out) {
  test::print_words(c.text, *out);
}

class BadYaml : public testing::TestWithParam<Case> {};

TEST_P(BadYaml, is_reported_with_place_and_advice) {
  EXPECT_NE(problems_of(GetParam().text).find(GetParam().expected), std::string::npos)
      << problems_of(GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Yaml, BadYaml,
    testing::Values(
        Case{"a: 1\nb: 2\na: 3\n", "a.yaml:3:1: error: duplicate key 'a'"},
        Case{"a: 1\n\nb: 2\na: 3\n", "it stands at line 1 already"},
        Case{"a:\n  b: 1\n  b: 2\n", "a.yaml:3:3: error: duplicate key 'b'"},
        Case{"a: {b: 1, 'b': 2}\n", "a.yaml:1:11: error: duplicate key 'b'"},
        Case{"a:\n\tb: 1\n", "a.yaml:2:1: error: tabs are not allowed for indentation"},
        Case{"a:\n  \tb: 1\n", "a.yaml:2:3: error: tabs are not allowed for indentation"},
        Case{"a: [1, 2\nb: 3\n", "a.yaml:1:4: error: '[' is never closed"},
        Case{"a: {b: 1\nc: 3\n", "a.yaml:1:4: error: '{' is never closed"},
        Case{"a: [1, 2]]\n", "a.yaml:1:10: error: "},
        Case{"a: [1, 2}\n", "this bracket does not close the '[' of line 1, column 4"},
        Case{"{a: [1, 2}}\n", "remove it, or close another kind of bracket before it"},
        Case{"a: {b: 1]\n", "write '}' before it"},
        Case{"a: \"x\nb: 1\n", "a.yaml:1:4: error: a quoted text is not closed on its line"},
        Case{"a: b: c\n", "a.yaml:1:5: error: ':' is not allowed here"},
        Case{"a: 1\n  b: 2\n", "a.yaml:2:4: error: ':' is not allowed here"},
        Case{"a: 1\nb\n", "a.yaml:2:1: error: 'b' has no ':'"},
        Case{"a: \"x\nb: \"y\"\n", "a.yaml:1:4: error: a quoted text is not closed on its line"},
        Case{"a: 'it''s\nb: 1\n", "a.yaml:1:4: error: a quoted text is not closed on its line"},
        Case{"a: 1\n b\n", "a.yaml:1:4: error: a value goes on in the next line"},
        Case{"{a: 1, b}\n", "a.yaml:1:8: error: 'b' has no ':'"},
        Case{"a: 1\nb:2\nc: 3\n", "a.yaml:2:1: error: this line has no ':' with a space after it"},
        Case{"a:\n  b: 1\n c: 2\n", "a.yaml:3:2: error: expected 'key: value'"},
        Case{"a: &x 1\nb: 2\n", "a.yaml:1:4: error: anchors (&name) are not allowed"},
        Case{"a: &x 1\nb: *x\n", "a.yaml:2:4: error: aliases (*name) are not allowed"},
        Case{"a: *x\n", "aliases (*name) are not allowed"},
        Case{"a: !!int 3\n", "a.yaml:1:4: error: tags (!name) are not allowed"},
        Case{"a: !foo [3]\n", "tags (!name) are not allowed"},
        Case{"<<: {a: 1}\n", "a.yaml:1:1: error: merge keys (<<) are not allowed"},
        Case{"? [a]\n: 1\n", "a key is a word, not a list"},
        Case{": 1\n", "a key is a word, not nothing"},
        Case{"a: 1\n---\nb: 2\n", "a second document begins here"},
        Case{"a: \xff\n", "a.yaml:1:4: error: the byte 0xff does not belong in a text file"},
        Case{std::string("a: 1\n\0", 6), "a.yaml:2:1: error: the byte 0x00"},
        Case{"a: \x1b[31m\n", "the byte 0x1b"}, Case{"a: \"\\q\"\n", "unknown escape"}));

TEST(Yaml, all_problems_of_a_file_are_collected) {
  const std::string text = problems_of("a: &x 1\na: !!int 2\nb: *x\n<<: 3\n");
  for (const char* expected : {"1:4", "2:1", "2:4", "3:4", "4:1"})
    EXPECT_NE(text.find(std::string("a.yaml:") + expected), std::string::npos) << text;
}

TEST(Yaml, quotes_blocks_and_comments_end_where_they_should) {
  const YamlNode root = root_of(
      "a: 'it''s' # c\nb : \"\\\"\" \n'c': |\n  x\n  y\n\"d\": x#y\ne: [p q, 'r']\nf: {g: 1,\n  h: "
      "2}\n");
  ASSERT_EQ(root.members.size(), 6U);
  EXPECT_EQ(root.members[0].value.text, "it's");
  EXPECT_EQ(root.members[1].value.text, "\"");
  EXPECT_EQ(root.members[2].value.text, "x\ny\n");
  EXPECT_EQ(root.members[3].value.text, "x#y");
  EXPECT_EQ(root.members[4].value.items.at(0).text, "p q");
  EXPECT_EQ(root.members[5].value.members.at(1).value.text, "2");
}

TEST(Yaml, limits_hold_at_their_edges) {
  EXPECT_EQ(problems_of(std::string(32, '[') + std::string(32, ']')), "");
  EXPECT_NE(problems_of(std::string(33, '[') + std::string(33, ']')).find("32 levels"),
            std::string::npos);
  std::string many = "[";
  for (int i = 0; i < 9'999; ++i) many += "1,";
  EXPECT_EQ(problems_of(many + "]"), "");
  EXPECT_NE(problems_of(many + "1,1]").find("more than 10000 values"), std::string::npos);
  EXPECT_EQ(problems_of("#" + std::string((1 << 20) - 1, 'x')), "");
  EXPECT_NE(problems_of("#" + std::string(1 << 20, 'x')).find("at most 1 MiB"), std::string::npos);
}

/// ReadPromise has how long that takes.
TEST(Yaml, hostile_files_are_read_or_refused) {
  for (const std::string& text : test::hostile_yaml()) problems_of(text);
}

}  // namespace
}  // namespace fourfold
