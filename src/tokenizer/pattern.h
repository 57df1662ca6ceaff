// A regular expression of a tokenizer, searched for in UTF-8 text: the wrapper of PCRE2. Which
// expressions mean the same there as in the tokenizers of Hugging Face: expression_syntax.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace fourfold::tokenizer {

class Pattern {
 public:
  /// One search may take so many steps; what takes more is not looked for any longer.
  static constexpr std::uint32_t most_steps = 1'000'000;

  struct Found {
    /// none: there is no match. open: what follows the text may change the match.
    enum class Kind : std::uint8_t { match, none, open, too_long };
    Kind kind = Kind::none;
    std::size_t begin = 0, end = 0;
  };

  virtual ~Pattern() = default;
  /// The first match that begins at `from` or later. `text`: well-formed UTF-8. For several threads
  /// at once.
  virtual Found find(std::string_view text, std::size_t from) const = 0;
  /// As above, of a text whose end is not known.
  virtual Found find_whatever_follows(std::string_view text, std::size_t from) const = 0;
  /// True if a match may depend on what stands before the place where the search begins.
  virtual bool looks_back() const = 0;
};

/// A text says why there is none: the library is not there, or what it says of the expression.
/// `expression`: as PCRE2 writes it; its classes are those of Unicode.
std::variant<std::unique_ptr<Pattern>, std::string> make_pattern(const std::string& expression);

}  // namespace fourfold::tokenizer
