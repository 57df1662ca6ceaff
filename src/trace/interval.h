// When something ran, as a backend writes it down while it works. Not what ran: timeline.h.
#pragma once

#include <chrono>
#include <cstdint>

namespace fourfold::trace {

/// Nanoseconds of a clock that never jumps; ranks of one host share it.
inline std::int64_t now_ns() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// [begin, end) on the clock of now_ns; both 0 for what has not run.
struct Interval {
  std::int64_t begin_ns = 0, end_ns = 0;
  bool operator==(const Interval&) const = default;

  std::int64_t duration_ns() const { return end_ns - begin_ns; }
};

}  // namespace fourfold::trace
