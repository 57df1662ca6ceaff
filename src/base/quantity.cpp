#include "base/quantity.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <span>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace fourfold {
namespace {

/// factor x 10^exponent; the factor is a power of two, so that only reading the decimal rounds.
struct QuantityUnit {
  std::string_view name;
  int exponent = 0;
  double factor = 1;
  bool is_written = true;  // by quantity_text
};

constexpr QuantityUnit units_of_bytes[] = {
    {"TiB", 0, 0x1p40}, {"GiB", 0, 0x1p30}, {"MiB", 0, 0x1p20},
    {"KiB", 0, 0x1p10}, {"TB", 12},         {"GB", 9},
    {"MB", 6},          {"kB", 3},          {"B"}};
constexpr QuantityUnit units_of_rates[] = {{"TB/s", 12},
                                           {"GB/s", 9},
                                           {"MB/s", 6},
                                           {"kB/s", 3},
                                           {"B/s"},
                                           {"GiB/s", 0, 0x1p30, false},
                                           {"MiB/s", 0, 0x1p20, false},
                                           {"Tbit/s", 12, 0.125, false},
                                           {"Gbit/s", 9, 0.125, false},
                                           {"Mbit/s", 6, 0.125, false}};
constexpr QuantityUnit units_of_flops[] = {{"PFLOP", 15}, {"TFLOP", 12}, {"GFLOP", 9},
                                           {"MFLOP", 6},  {"kFLOP", 3},  {"FLOP"}};
constexpr QuantityUnit units_of_speeds[] = {{"PFLOP/s", 15}, {"TFLOP/s", 12}, {"GFLOP/s", 9},
                                            {"MFLOP/s", 6},  {"kFLOP/s", 3},  {"FLOP/s"}};
constexpr QuantityUnit units_of_times[] = {{"s"}, {"ms", -3}, {"us", -6}, {"ns", -9}};

std::span<const QuantityUnit> units_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::bytes:
      return units_of_bytes;
    case Quantity::bytes_per_s:
      return units_of_rates;
    case Quantity::flops:
      return units_of_flops;
    case Quantity::flops_per_s:
      return units_of_speeds;
    case Quantity::seconds:
      return units_of_times;
  }
  fail_internal("a quantity is one of those listed");
}

/// The text as a number, times a power of ten.
std::optional<double> shifted_number(std::string_view text, int exponent) {
  const std::size_t mark = text.find('e');
  if (mark != text.npos) {
    std::string_view written = text.substr(mark + 1);
    if (written.starts_with('+')) written.remove_prefix(1);
    int own = 0;
    const char* end = written.data() + written.size();
    const auto [stop, error] = std::from_chars(written.data(), end, own);
    if (error != std::errc() || stop != end || std::abs(own) > 400) return std::nullopt;
    exponent += own;
    text = text.substr(0, mark);
  }
  if (text.find_first_not_of("0123456789.") != text.npos) return std::nullopt;
  const std::string whole = format("{}e{}", text, exponent);
  double number = 0;
  const auto [stop, error] = std::from_chars(whole.data(), whole.data() + whole.size(), number);
  if (error != std::errc() || stop != whole.data() + whole.size()) return std::nullopt;
  return number;
}

}  // namespace

std::optional<double> parse_quantity(std::string_view text, Quantity quantity) {
  double count = 1;
  const std::size_t times = text.find(" x ");
  if (times != text.npos) {
    const std::optional<double> number = shifted_number(text.substr(0, times), 0);
    if (!number) return std::nullopt;
    count = *number;
    text.remove_prefix(times + 3);
  }
  const std::size_t blank = text.find(' ');
  if (blank == text.npos) return std::nullopt;
  for (const QuantityUnit& unit : units_of(quantity)) {
    if (unit.name != text.substr(blank + 1)) continue;
    const std::optional<double> number = shifted_number(text.substr(0, blank), unit.exponent);
    const double value = number ? count * *number * unit.factor : 0;
    return number && std::isfinite(value) ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

std::string quantity_text(double value, Quantity quantity) {
  require(std::isfinite(value) && value >= 0, "a quantity is a number and not negative");
  std::string best;
  for (const QuantityUnit& unit : units_of(quantity)) {
    const bool is_plain = unit.exponent == 0 && unit.factor == 1;  // never rounds
    const double number = value / unit.factor * std::pow(10., -unit.exponent);
    if (!unit.is_written || (number < 1 && !is_plain)) continue;
    // The division may leave a last digit that the number did not have.
    for (const std::string& digits : {format("{:.15g}", number), format("{}", number)}) {
      const std::string text = format("{} {}", digits, unit.name);
      if (parse_quantity(text, quantity) == value && (best.empty() || text.size() < best.size()))
        best = text;
    }
  }
  return best;
}

std::string_view quantity_in_words(Quantity quantity) {
  switch (quantity) {
    case Quantity::bytes:
      return "a size, such as 40 GiB";
    case Quantity::bytes_per_s:
      return "a rate, such as 25 GB/s or 200 Gbit/s";
    case Quantity::flops:
      return "an amount of work, such as 2 GFLOP";
    case Quantity::flops_per_s:
      return "a speed, such as 312 TFLOP/s";
    case Quantity::seconds:
      return "a time, such as 5 us";
  }
  fail_internal("a quantity is one of those listed");
}

}  // namespace fourfold
