// Numbers as people read them. Machine-readable output prints plain numbers instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fourfold {

/// "812 B", "61.2 MiB", "1.50 GiB": binary units, three significant digits.
std::string format_bytes(std::int64_t bytes);
/// "5GB", "500MiB", "1000000": a whole number of decimal or binary units, in any case of letters;
/// nothing for other texts and for more than 2^63 - 1 bytes.
std::optional<std::int64_t> parse_bytes(std::string_view text);
/// "4MiB", "1500B", "0": the same number in the largest binary unit of which it is a whole number,
/// as parse_bytes reads it.
std::string exact_bytes(std::int64_t bytes);
/// "812", "40.3k", "124M", "1.56G": decimal SI suffixes, three significant digits.
std::string format_count(double count);
/// "812 ms", "4.21 s", "2m14s", "2h14m".
std::string format_duration(double seconds);
/// What a run counts wherever labels are.
struct CountUnit {
  std::string_view plural = "tokens";
  std::string_view brief = "tok";  // before "/s"
  bool operator==(const CountUnit&) const = default;
};

/// The integer with thousands separated by a comma: "1,115,394".
std::string format_grouped(std::int64_t number);
/// "1 document", "2,000 documents": the word with an s, unless there is one of it.
std::string counted(std::int64_t number, std::string_view word);

/// "70.9 GFLOP/s", " 819 MFLOP/s": three digits and a prefix of the unit, at the same width from
/// one flop a second on.
std::string flops_text(double flops_per_s);

}  // namespace fourfold
