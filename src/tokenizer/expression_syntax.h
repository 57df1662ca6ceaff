// Expressions of Oniguruma, in which the tokenizers of Hugging Face search, written for PCRE2. Not
// a search: pattern.h.
#pragma once

#include <string>
#include <string_view>
#include <variant>

namespace fourfold::tokenizer {

struct UnlikeExpression {
  std::string reason;  // with the byte at which it stands
};

/// The same expression for PCRE2. White space, words, letters and numbers become classes that are
/// those of Unicode there too, and names of scripts mean the script alone. What the two libraries
/// read in different ways, or one of them alone knows, is a reason: classes within classes,
/// references back, borders of words, settings within the expression other than letters of either
/// case.
std::variant<std::string, UnlikeExpression> to_pcre2(std::string_view expression);

}  // namespace fourfold::tokenizer
