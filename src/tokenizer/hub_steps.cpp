#include "tokenizer/hub_steps.h"

#include <string>
#include <utility>
#include <variant>

#include "base/format.h"
#include "tokenizer/expression_syntax.h"
#include "tokenizer/json_members.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/sentencepiece_model.h"

namespace fourfold::tokenizer {
namespace {

using What = CutStep::What;
using Keep = CutStep::Keep;

CutStep step_of(What what) {
  CutStep step;
  step.what = what;
  return step;
}

/// An expression that needs no library here: gpt2_chunks.h cuts as it does.
struct KnownExpression {
  std::string_view text;
  What what;
  int most_digits;
};
constexpr KnownExpression known_expressions[] = {
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     What::gpt2_words, 0},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     What::gpt4_words, 3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     What::gpt4_words, 1}};

/// How a pattern is written: as a text or as an expression.
struct WrittenPattern {
  std::string text;
  bool is_expression = false;
};

WrittenPattern pattern_of(const Json& step, const std::string& part) {
  const Json* pattern = member(step, "pattern");
  for (const bool is_expression : {false, true})
    if (pattern != nullptr)
      if (std::string text = text_of(*pattern, is_expression ? "Regex" : "String"); !text.empty())
        return {std::move(text), is_expression};
  throw Unlike{format("{}: its pattern is empty", part)};
}

void read_normal_step(const Json& step, const std::string& part, std::vector<NormalStep>& steps) {
  const std::string type = type_of(&step);
  if (type == "Sequence") {
    std::size_t number = 0;
    for (const Json& one : items_at(step, "normalizers"))
      read_normal_step(one, format("{}.normalizers[{}]", part, number++), steps);
  } else if (type == "NFC") {
    if (const std::string reason = why_no_normal_form(); !reason.empty())
      throw Unlike{format("{}: NFC: {}", part, reason)};
    steps.push_back({NormalStep::What::normal_form, "", ""});
  } else if (type == "Prepend") {
    steps.push_back({NormalStep::What::before, "", text_of(step, "prepend")});
  } else if (type == "Replace") {
    WrittenPattern pattern = pattern_of(step, part);
    if (pattern.is_expression)
      throw Unlike{format("{}: it replaces what an expression finds", part)};
    steps.push_back({NormalStep::What::replace, std::move(pattern.text), text_of(step, "content")});
  } else {
    throw Unlike{format("{}: {} is not known here", part, type.empty() ? "no type" : type)};
  }
}

Keep keep_of(const std::string& behavior, const std::string& part) {
  for (const auto& [word, keep] : {std::pair("Isolated", Keep::apart),
                                   {"Removed", Keep::removed},
                                   {"MergedWithPrevious", Keep::with_previous},
                                   {"MergedWithNext", Keep::with_next},
                                   {"Contiguous", Keep::together}})
    if (behavior == word) return keep;
  throw Unlike{format("{}: the behavior {} is not known here", part, behavior)};
}

CutStep split_of(const Json& step, const std::string& part) {
  WrittenPattern pattern = pattern_of(step, part);
  CutStep result;
  result.keep = keep_of(text_of(step, "behavior"), part);
  result.is_inverted = is_true(step, "invert", false);
  result.text = std::move(pattern.text);
  result.what = What::literal;
  if (!pattern.is_expression) return result;
  if (result.keep == Keep::apart && !result.is_inverted)
    for (const KnownExpression& known : known_expressions)
      if (result.text == known.text) {
        CutStep words = step_of(known.what);
        words.most_digits = known.most_digits;
        return words;
      }
  result.what = What::expression;
  const auto translated = to_pcre2(result.text);
  if (const auto* unlike = std::get_if<UnlikeExpression>(&translated))
    throw Unlike{format("{}: the expression {} has what is not known here: {}", part,
                        json_quoted(result.text), unlike->reason)};
  auto made = make_pattern(std::get<std::string>(translated));
  if (const auto* reason = std::get_if<std::string>(&made))
    throw Unlike{format("{}: the expression {}: {}", part, json_quoted(result.text), *reason)};
  result.pattern = std::get<std::unique_ptr<Pattern>>(std::move(made));
  return result;
}

void read_metaspace(const Json& step, const std::string& part, std::vector<CutStep>& steps) {
  if (text_of(step, "replacement") != space_symbol)
    throw Unlike{format("{}: spaces become another sign than U+2581", part)};
  const bool adds = is_true(step, "add_prefix_space", true);  // as older files say it
  std::string scheme = text_of(step, "prepend_scheme");
  if (scheme.empty()) scheme = adds ? "always" : "never";
  steps.push_back(step_of(What::spaces_to_symbols));
  if (scheme == "always" || scheme == "first")
    steps.push_back(step_of(scheme == "always" ? What::symbol_before : What::symbol_at_begin));
  else if (scheme != "never")
    throw Unlike{format("{}: the prepend_scheme {} is not known here", part, scheme)};
  if (!is_true(step, "split", true)) return;
  CutStep split = step_of(What::literal);
  split.keep = Keep::with_next;
  split.text = space_symbol;
  steps.push_back(std::move(split));
}

/// True if it turns bytes into letters.
bool read_cut_step(const Json& step, const std::string& part, std::vector<CutStep>& steps) {
  const std::string type = type_of(&step);
  if (type == "Sequence") {
    bool ends = false;
    std::size_t number = 0;
    for (const Json& one : items_at(step, "pretokenizers")) {
      const std::string place = format("{}.pretokenizers[{}]", part, number++);
      if (ends) throw Unlike{format("{}: it comes after ByteLevel", place)};
      ends = read_cut_step(one, place, steps);
    }
    return ends;
  }
  if (type == "ByteLevel") {
    if (is_true(step, "add_prefix_space", true)) steps.push_back(step_of(What::space_before));
    if (is_true(step, "use_regex", true)) steps.push_back(step_of(What::gpt2_words));
    return true;
  }
  if (type == "Digits") {
    CutStep digits = step_of(What::numbers);
    digits.keep = is_true(step, "individual_digits", false) ? Keep::apart : Keep::together;
    steps.push_back(std::move(digits));
  } else if (type == "Split") {
    steps.push_back(split_of(step, part));
  } else if (type == "Metaspace") {
    read_metaspace(step, part, steps);
  } else {
    throw Unlike{format("{}: {} is not known here", part, type.empty() ? "no type" : type)};
  }
  return false;
}

}  // namespace

void read_normal_steps(const Json* part, std::vector<NormalStep>& steps) {
  if (part != nullptr) read_normal_step(*part, "normalizer", steps);
}

bool read_cut_steps(const Json* part, std::vector<CutStep>& steps) {
  return part != nullptr && read_cut_step(*part, "pre_tokenizer", steps);
}

}  // namespace fourfold::tokenizer
