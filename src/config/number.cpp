#include "config/number.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "base/format.h"

namespace fourfold::config {
namespace {

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

/// The parts of a decimal number: sign, digits with the point taken out, and the power of ten they
/// are multiplied by.
struct Decimal {
  bool negative = false;
  std::string digits;
  std::int64_t exponent = 0;
  std::string suffix;  // what follows the number, unread
};

/// Takes digits and the underscores between them off the front.
std::string take_digits(std::string_view& text) {
  std::string digits;
  while (!text.empty() && (is_digit(text[0]) || text[0] == '_')) {
    const bool separates =
        text[0] == '_' && !digits.empty() && text.size() > 1 && is_digit(text[1]);
    if (text[0] == '_' && !separates) break;
    if (text[0] != '_') digits += text[0];
    text.remove_prefix(1);
  }
  return digits;
}

/// Takes "e-5" off the front; 0 when there is none. Huge exponents are cut: they are out of every
/// range.
std::int64_t take_exponent(std::string_view& text) {
  if (text.empty() || (text[0] != 'e' && text[0] != 'E')) return 0;
  std::string_view rest = text.substr(1);
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const auto end = std::find_if_not(rest.begin(), rest.end(), is_digit);
  if (end == rest.begin()) return 0;
  std::int64_t value = 0;
  for (auto digit = rest.begin(); digit != end; ++digit)
    value = std::min<std::int64_t>(100'000, value * 10 + (*digit - '0'));
  text = rest.substr(static_cast<std::size_t>(end - rest.begin()));
  return negative ? -value : value;
}

/// nullopt when the text does not begin as a number.
std::optional<Decimal> read_decimal(std::string_view text) {
  Decimal decimal;
  decimal.negative = text.starts_with('-');
  if (decimal.negative || text.starts_with('+')) text.remove_prefix(1);
  decimal.digits = take_digits(text);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::string fraction = take_digits(text);
    decimal.exponent = -static_cast<std::int64_t>(fraction.size());
    decimal.digits += fraction;
  }
  if (decimal.digits.empty()) return std::nullopt;
  decimal.exponent += take_exponent(text);
  decimal.suffix = text;
  return decimal;
}

bool has_leading_zero(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return text.size() > 1 && text[0] == '0' && (is_digit(text[1]) || text[1] == '_');
}

std::optional<Refusal> common_refusal(std::string_view text) {
  if (has_leading_zero(text)) {
    const auto digits = text.find_first_not_of("+-0_");
    return Refusal{"has a leading zero",
                   format("write {}", digits == text.npos ? "0" : text.substr(digits))};
  }
  if (text.starts_with("0x") || text.starts_with("0o") || text.starts_with("0b"))
    return Refusal{"is not decimal", "write the number in base ten"};
  return std::nullopt;
}

/// The power of ten of "k", "M", "B"; nullopt for another suffix.
std::optional<std::int64_t> suffix_power(std::string_view suffix) {
  if (suffix.empty()) return 0;
  if (suffix == "k") return 3;
  if (suffix == "M") return 6;
  if (suffix == "B") return 9;
  return std::nullopt;
}

/// digits * 10^exponent as an integer; nullopt when it is not whole or does not fit.
std::variant<std::int64_t, Refusal> to_integer(const Decimal& decimal) {
  std::string digits = decimal.digits;
  std::int64_t exponent = decimal.exponent;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
  while (exponent < 0 && !digits.empty() && digits.back() == '0') {
    digits.pop_back();
    ++exponent;
  }
  if (digits.empty()) return std::int64_t{0};
  if (exponent < 0) return Refusal{"is not whole", ""};
  const Refusal too_large{"does not fit 64 bits", ""};
  constexpr std::int64_t most_digits = 19;  // of 2^63 - 1
  if (static_cast<std::int64_t>(digits.size()) + exponent > most_digits) return too_large;
  digits.append(static_cast<std::size_t>(exponent), '0');
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc()) return too_large;
  return decimal.negative ? -value : value;
}

}  // namespace

std::variant<std::int64_t, Refusal> read_integer(std::string_view text) {
  if (const auto refusal = common_refusal(text)) return *refusal;
  auto decimal = read_decimal(text);
  if (!decimal) return Refusal{"", ""};
  const auto power = suffix_power(decimal->suffix);
  if (!power && decimal->suffix.size() <= 3)
    return Refusal{format("has the suffix '{}'", decimal->suffix),
                   "suffixes are k (thousand), M (million) and B (thousand million)"};
  if (!power) return Refusal{"", ""};
  decimal->exponent += *power;
  return to_integer(*decimal);
}

std::variant<double, Refusal> read_number(std::string_view text) {
  if (const auto refusal = common_refusal(text)) return *refusal;
  const auto decimal = read_decimal(text);
  if (!decimal) return Refusal{"", ""};
  if (suffix_power(decimal->suffix).value_or(0) != 0)
    return Refusal{format("has the suffix '{}'", decimal->suffix),
                   "suffixes are for whole numbers"};
  if (!decimal->suffix.empty()) return Refusal{"", ""};
  const std::string plain =
      format("{}{}e{}", decimal->negative ? "-" : "", decimal->digits, decimal->exponent);
  double value = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error == std::errc::result_out_of_range || !std::isfinite(value))
    return Refusal{"is outside the range of double precision", ""};
  return value;
}

std::string format_number(double value) {
  constexpr double exact =
      9007199254740992.0;  // 2^53: whole numbers below are exact, and read best in full
  if (value == std::floor(value) && std::abs(value) < exact) return format("{:.0f}", value);
  return format("{}", value);
}

double plain_decimal(double value) {
  const std::string digits = format("{:.15g}", value);
  double result = value;
  std::from_chars(digits.data(), digits.data() + digits.size(), result);
  return result;
}

}  // namespace fourfold::config
