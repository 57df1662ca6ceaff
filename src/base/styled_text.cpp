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
void for_each_run(std::string_view text, Letter&& letter, Sequence&& sequence) {
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
  for_each_run(
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
  for_each_run(
      text,
      [&](std::string_view) {
        ++columns;
        return true;
      },
      [](std::string_view) {});
  return columns;
}

std::string without_controls(std::string_view text) {
  std::string result(text);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto byte = static_cast<unsigned char>(result[i]);
    const auto next = i + 1 < result.size() ? static_cast<unsigned char>(result[i + 1]) : 0;
    if (byte == '\t')
      result[i] = ' ';
    else if ((byte < 0x20 && byte != '\n') || byte == 0x7f)
      result[i] = '?';
    else if (byte == 0xC2 && next >= 0x80 && next < 0xA0)
      result.replace(i, 2, "?");
  }
  return result;
}

std::string without_other_controls(std::string_view text) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  // The length of a style at the beginning of a text, or nothing.
  const auto style_bytes = [&](std::string_view rest) -> std::size_t {
    std::size_t at = escape.size();
    while (at < rest.size() && at < escape.size() + 2 && is_digit(rest[at])) ++at;
    const bool is_style = at > escape.size() && at < rest.size() && rest[at] == 'm';
    return is_style ? at + 1 : 0;
  };
  std::string result;
  std::size_t begin = 0;
  for (auto at = text.find(escape); at != text.npos; at = text.find(escape, at + 1)) {
    const std::size_t bytes = style_bytes(text.substr(at));
    if (bytes == 0) continue;
    result += without_controls(text.substr(begin, at - begin));
    result += text.substr(at, bytes);
    begin = at + bytes;
  }
  return result + without_controls(text.substr(begin));
}

std::string first_columns(std::string_view text, std::size_t columns) {
  std::string result;
  std::size_t used = 0;
  bool is_styled = false;
  for_each_run(
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
