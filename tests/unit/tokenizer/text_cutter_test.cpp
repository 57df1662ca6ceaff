#include "tokenizer/text_cutter.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/normal_form.h"
#include "unit/tokenizer/hub_files.h"

namespace fourfold::tokenizer::text_cutter_test {
namespace {

using Words = std::vector<std::string>;
using What = CutStep::What;
using Keep = CutStep::Keep;

class Collected final : public WordSink {
 public:
  void take(std::string_view word) override { words.emplace_back(word); }
  Words words;
};

CutStep step(What what, Keep keep = Keep::apart, std::string text = "") {
  CutStep result;
  result.what = what;
  result.keep = keep;
  result.text = std::move(text);
  return result;
}

CutStep expression(const std::string& text, Keep keep = Keep::apart) {
  CutStep result = step(What::expression, keep, text);
  result.pattern = std::get<std::unique_ptr<Pattern>>(make_pattern(text));
  return result;
}

template <class... Steps>
TextCutter cutter(Steps&&... more) {
  std::vector<CutStep> steps;
  (steps.push_back(std::forward<Steps>(more)), ...);
  return TextCutter(std::move(steps));
}

Words cut(const TextCutter& with, std::string_view text, Place place = Place::begin) {
  Collected sink;
  with.cut(text, place, "t", sink);
  return sink.words;
}

TEST(TextCutter, a_match_stands_alone_or_goes_with_its_neighbours) {
  const auto dashes = [](Keep keep) { return cutter(step(What::literal, keep, "-")); };
  const std::string text = "the-final--countdown-";
  EXPECT_EQ(cut(dashes(Keep::apart), text),
            (Words{"the", "-", "final", "-", "-", "countdown", "-"}));
  EXPECT_EQ(cut(dashes(Keep::removed), text), (Words{"the", "final", "countdown"}));
  EXPECT_EQ(cut(dashes(Keep::with_previous), text), (Words{"the-", "final-", "-", "countdown-"}));
  EXPECT_EQ(cut(dashes(Keep::with_next), text), (Words{"the", "-final", "-", "-countdown", "-"}));
  EXPECT_EQ(cut(dashes(Keep::together), text),
            (Words{"the", "-", "final", "--", "countdown", "-"}));
  CutStep inverted = step(What::literal, Keep::removed, "-");
  inverted.is_inverted = true;
  EXPECT_EQ(cut(cutter(std::move(inverted)), text), (Words{"-", "-", "-", "-"}));
  EXPECT_EQ(cut(dashes(Keep::apart), ""), Words{});
}

TEST(TextCutter, each_step_cuts_the_words_of_the_one_before) {
  const TextCutter smollm = cutter(step(What::numbers), step(What::gpt2_words));
  EXPECT_EQ(cut(smollm, "in 1984's  fox"),
            (Words{"in", " ", "1", "9", "8", "4", "'s", " ", " fox"}));
  EXPECT_EQ(cut(cutter(step(What::numbers, Keep::together)), "a12\u0663b"),
            (Words{"a", "12\u0663", "b"}));
  EXPECT_EQ(cut(cutter(step(What::numbers)), "1\xFF"), (Words{"1", "\xFF"}));
}

TEST(TextCutter, spaces_and_symbols_come_before_words_where_a_text_begins) {
  const TextCutter space = cutter(step(What::space_before));
  EXPECT_EQ(cut(space, "a"), Words{" a"});
  EXPECT_EQ(cut(space, " a"), Words{" a"});
  EXPECT_EQ(cut(space, "a", Place::within), Words{" a"});
  EXPECT_EQ(cut(space, "a", Place::goes_on), Words{"a"});
  const TextCutter first = cutter(step(What::spaces_to_symbols), step(What::symbol_at_begin));
  EXPECT_EQ(cut(first, "a b"), Words{"\u2581a\u2581b"});
  EXPECT_EQ(cut(first, " a"), Words{"\u2581a"});
  EXPECT_EQ(cut(first, "a b", Place::within), Words{"a\u2581b"});
  const TextCutter always = cutter(step(What::spaces_to_symbols), step(What::symbol_before),
                                   step(What::literal, Keep::with_next, "\u2581"));
  EXPECT_EQ(cut(always, "a  b"), (Words{"\u2581a", "\u2581", "\u2581b"}));
  EXPECT_EQ(cut(always, "a", Place::goes_on), Words{"a"});
}

TEST(TextCutter, expressions_cut_and_bytes_that_are_no_text_stay_between) {
  if (!has_expressions()) GTEST_SKIP() << "without PCRE2";
  EXPECT_EQ(cut(cutter(expression("[a-z]+")), "ab1cd"), (Words{"ab", "1", "cd"}));
  EXPECT_EQ(cut(cutter(expression("[a-z]*")), "ab1cd2"), (Words{"ab", "1", "cd", "2"}));
  EXPECT_EQ(cut(cutter(expression("[a-z]+")), "ab\xFF\xC3z"), (Words{"ab", "\xFF\xC3", "z"}));
  EXPECT_EQ(cut(cutter(expression(".")), "\u00e9\xE9"), (Words{"\u00e9", "\xE9"}));
}

TEST(TextCutter, a_sure_cut_does_not_depend_on_what_follows) {
  if (!has_expressions()) GTEST_SKIP() << "without PCRE2";
  const TextCutter words = cutter(expression(R"([a-z]+| ?[0-9]+|\s+)"));
  EXPECT_EQ(words.last_sure_cut("abc def"), 4U);
  EXPECT_EQ(words.last_sure_cut("abc"), 0U);
  EXPECT_EQ(words.last_sure_cut("abc "), 3U);
  EXPECT_EQ(words.last_sure_cut("abc\xFF"), 0U);
  // Before the last of several spaces, which would be one word with them if nothing followed.
  const TextCutter spaces = cutter(expression(R"(\s+(?!\S)|\s|[a-z]+)"));
  EXPECT_EQ(spaces.last_sure_cut("abc   d"), 5U);
  EXPECT_EQ(spaces.last_sure_cut("a  "), 1U);
  EXPECT_EQ(cutter(expression("(?<=a)b|a")).last_sure_cut("ababab"), 0U);
  EXPECT_EQ(cutter(step(What::gpt2_words)).last_sure_cut("abc def"), 0U);
}

TEST(AddedTokens, the_longest_is_found_with_the_white_space_that_it_takes) {
  const AddedTokens tokens(
      {{"<a>", 1}, {"<a>b", 2}, {"<m>", 3, true, false}, {"<r>", 4, false, true}, {"x", 5}});
  const auto found = [&](std::string_view text, std::size_t from = 0) {
    const auto at = tokens.find(text, from);
    return at ? std::vector<std::size_t>{at->begin, at->end, static_cast<std::size_t>(at->id)}
              : std::vector<std::size_t>{};
  };
  using Place3 = std::vector<std::size_t>;
  EXPECT_EQ(found("q<a>bc"), (Place3{1, 5, 2}));
  EXPECT_EQ(found("<a>c<a>"), (Place3{0, 3, 1}));
  EXPECT_EQ(found("<a>c<a>", 1), (Place3{4, 7, 1}));
  EXPECT_EQ(found("q \u3000<m> "), (Place3{1, 8, 3}));
  EXPECT_EQ(found("q  <m>", 2), (Place3{2, 6, 3}));
  EXPECT_EQ(found("q <r> \u00a0b"), (Place3{2, 8, 4}));
  EXPECT_EQ(found("ax"), (Place3{1, 2, 5}));
  EXPECT_EQ(found("<a"), Place3{});
  EXPECT_FALSE(AddedTokens({}).find("text", 0).has_value());
}

TEST(NormalForm, characters_and_their_accents_become_one) {
  if (const std::string reason = why_no_normal_form(); !reason.empty()) {
    EXPECT_NE(reason.find("libutf8proc-dev"), std::string::npos);
    return;
  }
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"plain text, long enough for eights", "plain text, long enough for eights"},
           {"cafe\u0301 e\u0301", "caf\u00e9 \u00e9"},
           {"\u212b\u2126", "\u00c5\u03a9"},
           {"\u1112\u1161\u11ab", "\ud55c"},
           {"\uac00\u11a8", "\uac01"},
           {"a\u0323\u0301 a\u0301\u0323", "\u1ea1\u0301 \u1ea1\u0301"},
           {"\u0301x", "\u0301x"},
           {"e\xFF\u0301", "e\xFF\u0301"},
           {"\u00e9\u4f60\u0439\U0001f600", "\u00e9\u4f60\u0439\U0001f600"},
           {"\u0958", "\u0915\u093c"}})
    EXPECT_EQ(normal_form_c(from), to) << from;
}

}  // namespace
}  // namespace fourfold::tokenizer::text_cutter_test
