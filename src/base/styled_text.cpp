#include "base/styled_text.h"

#include "base/error.h"
#include "base/format.h"

namespace fourfold {
namespace {

constexpr std::string_view escape = "\x1b[", reset = "\x1b[0m";

int code_of(Style style) {
  switch (style) {
    case Style::bold:
      return 1;
    case Style::dim:
      return 2;
    case Style::red:
      return 31;
    case Style::green:
      return 32;
    case Style::yellow:
      return 33;
  }
  fail_internal("every style has a code");
}

/// Calls `letter` with each UTF-8 letter and `sequence` with each SGR sequence; stops where
/// `letter` says so.
template <class Letter, class Sequence>
void for_each_part(std::string_view text, Letter&& letter, Sequence&& sequence) {
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    if (text.substr(begin).starts_with(escape)) {
      end = std::min(text.find('m', begin), text.size() - 1) + 1;
      sequence(text.substr(begin, end - begin));
    } else {
      const auto continues = [&](std::size_t at) {
        return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
      };
      while (end < text.size() && continues(end)) ++end;
      if (!letter(text.substr(begin, end - begin))) return;
    }
    begin = end;
  }
}

}  // namespace

std::string styled(Style style, std::string_view text) {
  return format("{}{}m{}{}", escape, code_of(style), text, reset);
}

std::string without_styles(std::string_view text) {
  std::string result;
  for_each_part(
      text,
      [&](std::string_view letter) {
        result += letter;
        return true;
      },
      [](std::string_view) {});
  return result;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for_each_part(
      text,
      [&](std::string_view) {
        ++columns;
        return true;
      },
      [](std::string_view) {});
  return columns;
}

std::string first_columns(std::string_view text, std::size_t columns) {
  std::string result;
  std::size_t used = 0;
  bool is_styled = false;
  for_each_part(
      text,
      [&](std::string_view letter) {
        if (used == columns) return false;
        ++used;
        result += letter;
        return true;
      },
      [&](std::string_view sequence) {
        result += sequence;
        is_styled = sequence != reset;
      });
  if (is_styled) result += reset;
  return result;
}

}  // namespace fourfold
