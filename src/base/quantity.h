// Sizes, rates, work and times with their units, read and written exactly: "40 GiB", "25 GB/s",
// "312 TFLOP/s", "2.5 us". Not the rounded numbers of messages (units.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fourfold {

enum class Quantity : std::uint8_t { bytes, bytes_per_s, flops, flops_per_s, seconds };

/// "40 GiB", "4 x 25 GB/s" (so many together), "200 Gbit/s", "5 us": a number that is not negative,
/// a blank and a unit, whose letters have the case shown; in bytes, bytes a second, flops, flops a
/// second, seconds. Nothing for other texts, for no unit and for the unit of another quantity.
std::optional<double> parse_quantity(std::string_view text, Quantity quantity);

/// The shortest text that reads back to the same bits, with a number of at least 1 where the
/// quantity has such a unit. Requires a finite number that is not negative.
std::string quantity_text(double value, Quantity quantity);

/// What a message expects: "a rate, such as 25 GB/s or 200 Gbit/s".
std::string_view quantity_in_words(Quantity quantity);

}  // namespace fourfold
