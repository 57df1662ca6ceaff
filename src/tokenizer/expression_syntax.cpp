#include "tokenizer/expression_syntax.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/format.h"
#include "tokenizer/utf8.h"

namespace fourfold::tokenizer {
namespace {

/// White_Space of Unicode; PCRE2's own \s takes U+180E too.
constexpr std::string_view white_space = R"(\x{09}-\x{0D}\x{85}\p{Z})";
/// \w of Oniguruma; PCRE2's own has all numbers and no marks (10.42).
constexpr std::string_view word_characters = R"(\p{L}\p{M}\p{Nd}\p{Pc})";

constexpr std::array<std::string_view, 38> categories = {
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "L&", "Ll", "Lm", "Lo", "Lt", "Lu",
    "M",  "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf",
    "Pi", "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Translation {
 public:
  explicit Translation(std::string_view expression) : text_(expression) {}

  std::variant<std::string, UnlikeExpression> run() {
    if (const std::size_t good = well_formed_prefix(text_); good != text_.size())
      return UnlikeExpression{format("byte {} is not UTF-8", good)};
    while (at_ < text_.size() && reason_.empty()) step();
    if (reason_.empty() && in_class_) fail("a class has no end", class_begin_);
    if (!reason_.empty()) return UnlikeExpression{std::move(reason_)};
    return std::move(result_);
  }

 private:
  void fail(std::string_view what, std::size_t place) {
    if (reason_.empty()) reason_ = format("{} (byte {})", what, place);
  }
  char here(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void copy(std::size_t count) {
    result_ += text_.substr(at_, count);
    at_ += count;
  }

  void step() {
    if (here() == '\\') return escape();
    if (in_class_) return step_in_class();
    switch (here()) {
      case '[':
        return begin_class();
      case '(':
        return begin_group();
      case '{':
        return repeat();
      default:
        copy(1);
    }
  }

  void begin_class() {
    in_class_ = true;
    class_begin_ = at_;
    copy(here(1) == '^' ? 2 : 1);
    if (here() == ']') fail("a class begins with ]", at_);
  }

  void step_in_class() {
    if (here() == '[') return fail("a class stands within a class", at_);
    if (here() == '&' && here(1) == '&') return fail("classes are cut with each other (&&)", at_);
    if (here() == ']') in_class_ = false;
    copy(1);
  }

  /// What may stand after "(?".
  void begin_group() {
    if (here(1) == '*') return fail("a verb", at_);
    if (here(1) != '?') return copy(1);
    for (const std::string_view kind : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)"})
      if (text_.substr(at_).starts_with(kind)) return copy(kind.size());
    fail("a group of a kind that is not known here", at_);
  }

  /// {n}, {n,} and {n,m}; a brace that repeats nothing is one.
  void repeat() {
    std::size_t end = at_ + 1;
    const auto digits = [&] {
      const std::size_t begin = end;
      while (end < text_.size() && is_digit(text_[end])) ++end;
      return end - begin;
    };
    const std::size_t least = digits();
    const bool has_comma = end < text_.size() && text_[end] == ',';
    if (has_comma) ++end;
    const std::size_t most = has_comma ? digits() : 0;
    const bool is_repeat = end < text_.size() && text_[end] == '}' && least + most > 0;
    if (!is_repeat) {
      result_ += '\\';
      return copy(1);
    }
    if (least == 0) return fail("a repetition without its least number", at_);
    const char after = end + 1 < text_.size() ? text_[end + 1] : '\0';
    if (after == '+' || (after == '?' && !has_comma))
      return fail("a repetition that two libraries read in two ways", at_);
    copy(end + 1 - at_);
  }

  /// A class of its own, or what stands in one.
  void put_class(std::string_view members, bool is_negated, std::string_view what) {
    if (in_class_ && is_negated) return fail(format("{} within a class", what), at_ - 2);
    result_ += in_class_ ? std::string(members) : format("[{}{}]", is_negated ? "^" : "", members);
  }

  void escape() {
    const char letter = here(1);
    const std::size_t place = at_;
    at_ += 2;
    switch (letter) {
      case 's':
      case 'S':
        return put_class(white_space, letter == 'S', "\\S");
      case 'w':
      case 'W':
        return put_class(word_characters, letter == 'W', "\\W");
      case 'p':
      case 'P':
        return property(letter == 'P', place);
      case 'u':
        return hexadecimal(4, place);
      case 'x':
        return here() == '{' ? braced_hexadecimal(place) : hexadecimal(2, place);
      case 'v':
        result_ += "\\x0B";
        return;
      case 'd':
      case 'D':
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'e':
      case 'a':
        result_ += text_.substr(place, 2);
        return;
      case 'A':
      case 'z':
      case 'Z':
        if (in_class_) return fail("an escape that is not known here", place);
        result_ += text_.substr(place, 2);
        return;
      default:
        break;
    }
    const bool is_sign = static_cast<unsigned char>(letter) < 0x80 && letter > ' ' &&
                         !is_letter(letter) && !is_digit(letter);
    if (!is_sign && letter != ' ') return fail("an escape that is not known here", place);
    result_ += text_.substr(place, 2);
  }

  void hexadecimal(std::size_t count, std::size_t place) {
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), count);
    const bool is_number = digits.size() == count && std::ranges::all_of(digits, is_hex);
    // Two digits are a byte there.
    if (!is_number || (count == 2 && digits[0] > '7'))
      return fail("a number of a character that is not known here", place);
    result_ += format("\\x{{{}}}", digits);
    at_ += count;
  }

  void braced_hexadecimal(std::size_t place) {
    const std::size_t end = text_.find('}', at_);
    const std::string_view digits = end == text_.npos ? "" : text_.substr(at_ + 1, end - at_ - 1);
    if (digits.empty() || digits.size() > 6 || !std::ranges::all_of(digits, is_hex))
      return fail("a number of a character that is not known here", place);
    result_ += format("\\x{{{}}}", digits);
    at_ = end + 1;
  }

  void property(bool is_negated, std::size_t place) {
    const std::size_t end = here() == '{' ? text_.find('}', at_) : text_.npos;
    if (end == text_.npos) return fail("a property without its name", place);
    std::string_view name = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    if (name.starts_with('^')) {
      name.remove_prefix(1);
      is_negated = !is_negated;
    }
    const bool is_category = std::ranges::find(categories, name) != categories.end();
    if (!is_category && (name.size() < 3 || !std::ranges::all_of(name, is_letter)))
      return fail(format("the property {} is not known here", name), place);
    // PCRE2 takes what a script is used with for the script too, unless it is told.
    result_ += format("\\{}{{{}{}}}", is_negated ? 'P' : 'p', is_category ? "" : "sc:", name);
  }

  std::string_view text_;
  std::size_t at_ = 0, class_begin_ = 0;
  bool in_class_ = false;
  std::string result_, reason_;
};

}  // namespace

std::variant<std::string, UnlikeExpression> to_pcre2(std::string_view expression) {
  return Translation(expression).run();
}

}  // namespace fourfold::tokenizer
