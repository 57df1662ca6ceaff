// Numbers as people write them in a configuration, read exactly. Not the numbers of other files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace fourfold::config {

/// What is wrong with a text, and what to write instead (may be empty).
struct Refusal {
  std::string reason;
  std::string hint;
};

/// Reads "12", "1_000", "8e9", "4k", "2M", "1.5B" (thousands, millions, thousand millions) exactly.
std::variant<std::int64_t, Refusal> read_integer(std::string_view text);

/// Reads "0.1", "1e-4", "1_000.5", "-3"; no suffixes, no hexadecimal, finite.
std::variant<double, Refusal> read_number(std::string_view text);

/// The shortest text that reads back to the same bits: "0.001", "1e-05", "65000".
std::string format_number(double value);

/// The number of at most 15 digits that is nearest: for what is computed from numbers that people
/// write, so that a tenth of 6e-4 is 6e-5 and not 5.9999999999999995e-05.
double plain_decimal(double value);

}  // namespace fourfold::config
