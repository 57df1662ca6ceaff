#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "base/format.h"

namespace fourfold {
namespace {

std::string three_digits(double value) {
  const double magnitude = std::abs(value);
  if (magnitude < 9.995) return format("{:.2f}", value);
  if (magnitude < 99.95) return format("{:.1f}", value);
  return format("{:.0f}", value);
}

}  // namespace

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<std::string_view, 6> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  if (std::abs(bytes) < 1024) return format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1023.5 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  return format("{} {}", three_digits(value), units[unit]);
}

std::string format_count(double count) {
  constexpr std::array<std::string_view, 6> suffixes = {"", "k", "M", "G", "T", "P"};
  if (std::abs(count) < 1000 && count == std::floor(count)) return format("{:.0f}", count);
  std::size_t suffix = 0;
  while (std::abs(count) >= 999.5 && suffix + 1 < suffixes.size()) {
    count /= 1000;
    ++suffix;
  }
  return three_digits(count) + std::string(suffixes[suffix]);
}

std::string format_duration(double seconds) {
  if (seconds < 0.9995) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 59.95) return three_digits(seconds) + " s";
  // More than a hundred million years, which have too many digits.
  if (!(seconds < 3.6e15)) return format("{:.3g} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return format("{}m{:02}s", whole / 60, whole % 60);
  return format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string format_grouped(std::int64_t number) {
  std::string digits = format("{}", number < 0 ? -number : number);
  for (auto place = static_cast<std::ptrdiff_t>(digits.size()) - 3; place > 0; place -= 3)
    digits.insert(static_cast<std::size_t>(place), ",");
  return (number < 0 ? "-" : "") + digits;
}

std::string counted(std::int64_t number, std::string_view word) {
  return format("{} {}{}", format_grouped(number), word, number == 1 ? "" : "s");
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::int64_t bytes;
  };
  static constexpr Unit units[] = {{"", 1},
                                   {"B", 1},
                                   {"KB", 1'000},
                                   {"MB", 1'000'000},
                                   {"GB", 1'000'000'000},
                                   {"KIB", 1LL << 10},
                                   {"MIB", 1LL << 20},
                                   {"GIB", 1LL << 30}};
  std::int64_t number = 0, bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  std::string unit(end, text.data() + text.size());
  for (char& letter : unit)
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
  for (const Unit& row : units)
    if (unit == row.name && !__builtin_mul_overflow(number, row.bytes, &bytes)) return bytes;
  return std::nullopt;
}

std::string exact_bytes(std::int64_t bytes) {
  if (bytes == 0) return "0";
  for (const auto& [shift, unit] :
       {std::pair(30, "GiB"), std::pair(20, "MiB"), std::pair(10, "KiB")})
    if (bytes % (std::int64_t{1} << shift) == 0) return format("{}{}", bytes >> shift, unit);
  return format("{}B", bytes);
}

std::string flops_text(double flops_per_s) {
  std::string number = format_count(flops_per_s);
  std::string prefix = " ";
  if (std::isalpha(static_cast<unsigned char>(number.back())) != 0) {
    prefix = number.back();
    number.pop_back();
  }
  return format("{:>4} {}FLOP/s", number, prefix);
}

}  // namespace fourfold
