#include "tokenizer/expression_syntax.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/pattern.h"
#include "unit/tokenizer/hub_files.h"

namespace fourfold::tokenizer {
namespace {

std::string translated(std::string_view expression) {
  const auto result = to_pcre2(expression);
  if (const auto* unlike = std::get_if<UnlikeExpression>(&result))
    return "unlike: " + unlike->reason;
  return std::get<std::string>(result);
}

TEST(ExpressionSyntax, classes_are_written_out_as_those_of_unicode) {
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {R"(\s+(?!\S))", R"([\x{09}-\x{0D}\x{85}\p{Z}]+(?![^\x{09}-\x{0D}\x{85}\p{Z}]))"},
           {R"([^\s\p{L}]?)", R"([^\x{09}-\x{0D}\x{85}\p{Z}\p{L}]?)"},
           {R"(\w\W)", R"([\p{L}\p{M}\p{Nd}\p{Pc}][^\p{L}\p{M}\p{Nd}\p{Pc}])"},
           {R"(\p{Han}\p{^N}\P{^L}[\p{Greek}])", R"(\p{sc:Han}\P{N}\p{L}[\p{sc:Greek}])"},
           {R"(\u00e9\x41\x{1F600}\v)", R"(\x{00e9}\x{41}\x{1F600}\x0B)"},
           {R"((?i:'s|'t)|a{2}b{1,3}?c{2,}{)", R"((?i:'s|'t)|a{2}b{1,3}?c{2,}\{)"},
           {R"((?<=a)(?<!b)(?=c)(?:d)(?>e)^$.|\.\ \\)", R"((?<=a)(?<!b)(?=c)(?:d)(?>e)^$.|\.\ \\)"},
           {"[\u4e00-\u9fa5\\]-]", "[\u4e00-\u9fa5\\]-]"}})
    EXPECT_EQ(translated(from), to);
}

TEST(ExpressionSyntax, what_two_libraries_read_in_two_ways_is_a_reason_with_its_place) {
  for (const auto& [from, reason] : std::vector<std::pair<std::string, std::string>>{
           {"a[b[c]]", "a class stands within a class (byte 3)"},
           {"[a&&b]", "classes are cut with each other (&&) (byte 2)"},
           {"[]a]", "a class begins with ] (byte 1)"},
           {"x[ab", "a class has no end (byte 1)"},
           {R"([\S])", R"(\S within a class)"},
           {"(*FAIL)", "a verb (byte 0)"},
           {"(?P<n>a)", "a group of a kind that is not known here (byte 0)"},
           {"(?m:a)", "a group of a kind that is not known here"},
           {"a{,3}", "a repetition without its least number (byte 1)"},
           {"a{1,3}+", "a repetition that two libraries read in two ways (byte 1)"},
           {"a{2}?", "a repetition that two libraries read in two ways"},
           {R"(a\1)", "an escape that is not known here (byte 1)"},
           {R"(a\b)", "an escape that is not known here"},
           {R"([\A])", "an escape that is not known here"},
           {R"(\h)", "an escape that is not known here"},
           {"a\\", "an escape that is not known here"},
           {R"(\xE9)", "a number of a character that is not known here (byte 0)"},
           {R"(\u12)", "a number of a character"},
           {R"(\x{1234567})", "a number of a character"},
           {R"(\p{L)", "a property without its name"},
           {R"(\pL)", "a property without its name"},
           {R"(\p{L1})", "the property L1 is not known here"},
           {"a\xFFz", "byte 1 is not UTF-8"}})
    EXPECT_NE(translated(from).find("unlike: " + reason), std::string::npos)
        << from << ": " << translated(from);
}

TEST(Pattern, finds_what_the_expression_says_and_knows_where_more_text_would_change_it) {
  auto made = make_pattern(translated(R"(\p{L}+|\s+(?!\S)|\s)"));
  if (!has_expressions()) {
    EXPECT_NE(std::get<std::string>(made).find("libpcre2-dev"), std::string::npos);
    return;
  }
  const auto& pattern = *std::get<std::unique_ptr<Pattern>>(made);
  using Kind = Pattern::Found::Kind;
  const auto found = pattern.find("12 ab", 0);
  EXPECT_EQ(found.kind, Kind::match);
  EXPECT_EQ(found.begin, 2U);
  EXPECT_EQ(found.end, 3U);
  EXPECT_EQ(pattern.find("12", 0).kind, Kind::none);
  EXPECT_EQ(pattern.find("ab", 0).end, 2U);
  EXPECT_EQ(pattern.find_whatever_follows("ab", 0).kind, Kind::open);
  EXPECT_EQ(pattern.find_whatever_follows("ab1", 0).end, 2U);
  EXPECT_FALSE(pattern.looks_back());
  EXPECT_TRUE(std::get<std::unique_ptr<Pattern>>(make_pattern("(?<=a)b"))->looks_back());
  // White space as in Unicode, without U+180E.
  EXPECT_EQ(pattern.find("\u180E", 0).kind, Kind::none);
  EXPECT_EQ(pattern.find("\u0085", 0).kind, Kind::match);
  EXPECT_EQ(std::get<std::string>(make_pattern("a(b")),
            "PCRE2 refuses it at byte 3: missing closing parenthesis");
}

TEST(Pattern, ends_a_search_that_takes_too_many_steps) {
  if (!has_expressions()) GTEST_SKIP() << "without PCRE2";
  const auto made = make_pattern(R"((?:a|aa|aaa)+(?:a|aa)+\z)");
  const auto& pattern = *std::get<std::unique_ptr<Pattern>>(made);
  EXPECT_EQ(pattern.find(std::string(200, 'a') + "b", 0).kind, Pattern::Found::Kind::too_long);
  // The stack of its compiled code does not limit what it finds.
  const auto deep = make_pattern("(?:a|b)*c");
  const std::string text = std::string(100'000, 'a') + "c";
  EXPECT_EQ(std::get<std::unique_ptr<Pattern>>(deep)->find(text, 0).end, text.size());
}

}  // namespace
}  // namespace fourfold::tokenizer
