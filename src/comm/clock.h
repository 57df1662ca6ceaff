// Times of a watcher: a clock that never jumps, and how long ago a rank told something.
#pragma once

#include <chrono>
#include <cstdint>

namespace fourfold::comm {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Age {
 public:
  explicit Age(double now) : heard_s_(now), changed_s_(now) {}

  void told(double now, std::uint64_t ticks) {
    heard_s_ = now;
    if (ticks == ticks_) return;
    ticks_ = ticks;
    changed_s_ = now;
  }
  double silent_s(double now) const { return now - heard_s_; }
  double unchanged_s(double now) const { return now - changed_s_; }

 private:
  double heard_s_, changed_s_;
  std::uint64_t ticks_ = 0;
};

}  // namespace fourfold::comm
