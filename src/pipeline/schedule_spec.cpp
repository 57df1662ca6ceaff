#include "pipeline/schedule_spec.h"

#include <algorithm>
#include <charconv>

#include "base/format.h"

namespace fourfold::pipeline {

std::string to_string(const WeightDelay& delay) {
  switch (delay.kind) {
    case WeightDelay::Kind::none:
      return "none";
    case WeightDelay::Kind::automatic:
      return "auto";
    case WeightDelay::Kind::fixed:
      break;
  }
  return format("{}", delay.micros);
}

std::optional<WeightDelay> weight_delay_from(std::string_view text) {
  if (text == "none") return WeightDelay{};
  if (text == "auto") return WeightDelay{WeightDelay::Kind::automatic, 0};
  WeightDelay fixed{WeightDelay::Kind::fixed, 0};
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, fixed.micros);
  if (read.ec != std::errc{} || read.ptr != end || fixed.micros < 0) return std::nullopt;
  return fixed;
}

std::optional<std::int64_t> cap_of(std::int64_t limit_bytes, std::int64_t bytes) {
  if (bytes <= 0) return std::nullopt;
  return std::max<std::int64_t>(limit_bytes, 0) / bytes;
}

}  // namespace fourfold::pipeline
