#include "base/quantity.h"

#include <charconv>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace fourfold {
namespace {

/// One of both is 1: to divide by a whole number rounds once, to multiply by 1e-6 rounds twice.
struct QuantityUnit {
  std::string_view name;
  double times = 1, over = 1;
  bool is_written = true;  // by quantity_text
};

// From large to small.
constexpr QuantityUnit units_of_bytes[] = {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20},
                                           {"KiB", 0x1p10}, {"TB", 1e12},    {"GB", 1e9},
                                           {"MB", 1e6},     {"kB", 1e3},     {"B", 1}};
constexpr QuantityUnit units_of_rates[] = {{"TB/s", 1e12},
                                           {"GB/s", 1e9},
                                           {"MB/s", 1e6},
                                           {"kB/s", 1e3},
                                           {"B/s", 1},
                                           {"GiB/s", 0x1p30, 1, false},
                                           {"MiB/s", 0x1p20, 1, false},
                                           {"Tbit/s", 1.25e11, 1, false},
                                           {"Gbit/s", 1.25e8, 1, false},
                                           {"Mbit/s", 1.25e5, 1, false}};
constexpr QuantityUnit units_of_flops[] = {{"PFLOP", 1e15}, {"TFLOP", 1e12}, {"GFLOP", 1e9},
                                           {"MFLOP", 1e6},  {"kFLOP", 1e3},  {"FLOP", 1}};
constexpr QuantityUnit units_of_speeds[] = {{"PFLOP/s", 1e15}, {"TFLOP/s", 1e12}, {"GFLOP/s", 1e9},
                                            {"MFLOP/s", 1e6},  {"kFLOP/s", 1e3},  {"FLOP/s", 1}};
constexpr QuantityUnit units_of_times[] = {{"s"}, {"ms", 1, 1e3}, {"us", 1, 1e6}, {"ns", 1, 1e9}};

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

std::optional<double> plain_number(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || !std::isfinite(number) || std::signbit(number))
    return std::nullopt;
  return number;
}

double with_unit(double number, const QuantityUnit& unit) {
  return number * unit.times / unit.over;
}

}  // namespace

std::optional<double> parse_quantity(std::string_view text, Quantity quantity) {
  double number = 1;
  const std::size_t times = text.find(" x ");
  if (times != text.npos) {
    const std::optional<double> count = plain_number(text.substr(0, times));
    if (!count) return std::nullopt;
    number = *count;
    text.remove_prefix(times + 3);
  }
  const std::size_t blank = text.find(' ');
  if (blank == text.npos) return std::nullopt;
  const std::optional<double> one = plain_number(text.substr(0, blank));
  if (!one) return std::nullopt;
  number *= *one;
  for (const QuantityUnit& unit : units_of(quantity)) {
    const double value = with_unit(number, unit);
    if (unit.name == text.substr(blank + 1) && std::isfinite(value)) return value;
  }
  return std::nullopt;
}

std::string quantity_text(double value, Quantity quantity) {
  require(std::isfinite(value) && value >= 0, "a quantity is a number and not negative");
  std::string best;
  for (const QuantityUnit& unit : units_of(quantity)) {
    const bool is_plain = unit.times == 1 && unit.over == 1;  // never rounds
    if (!unit.is_written || (value * unit.over < unit.times && !is_plain)) continue;
    const std::string text = format("{} {}", value * unit.over / unit.times, unit.name);
    if (parse_quantity(text, quantity) != value) continue;
    if (best.empty() || text.size() < best.size()) best = text;
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
