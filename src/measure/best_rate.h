// Repeats a piece of work for a while and gives the best rate seen: on a shared machine the
// disturbed stretches are left out, the undisturbed ones agree.
#pragma once

#include <algorithm>
#include <chrono>

namespace fourfold::measure {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Shorter than most disturbances (a slice of the scheduler is some ms), long beside reading the
/// clock (about 50 ns).
inline constexpr double stretch_s = 1e-4;

/// Largest amount / time over stretches of calls of `body`, for about `seconds` in all; one call
/// goes before to warm up. A stretch is one call, or as many as take `stretch_s`. `amount` is what
/// one call does.
template <class Body>
double best_rate(double seconds, double amount, Body&& body) {
  const double end = now_s() + seconds;
  body();
  double best = 0;
  for (int calls = 1;;) {
    const double begin = now_s();
    for (int call = 0; call < calls; ++call) body();
    const double now = now_s();
    best = std::max(best, amount * calls / (now - begin));
    if (now >= end) return best;
    if (now - begin < stretch_s) calls *= 2;
  }
}

}  // namespace fourfold::measure
