// Where threads wait until all have come. Two forms: one that can be called off, one that cannot.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace fourfold::comm {

/// Used round after round by the same `count` threads. Waiting threads sleep. What a thread wrote
/// before it came, all see after they left.
class Meeting {
 public:
  explicit Meeting(std::size_t count) : count_(static_cast<std::uint32_t>(count)) {}

  /// Returns true when all have come; false when the meeting was called off before that, and then
  /// false to everyone: all see the same.
  bool wait() {
    std::uint32_t round = round_.load(std::memory_order_acquire);
    if ((round & called_off) != 0) return false;
    if (come_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
      come_.store(0, std::memory_order_relaxed);
      const bool all =
          round_.compare_exchange_strong(round, round + next_round, std::memory_order_acq_rel);
      if (all) round_.notify_all();
      return all;
    }
    std::uint32_t now = round;
    while (now == round) {
      round_.wait(round, std::memory_order_acquire);
      now = round_.load(std::memory_order_acquire);
    }
    return (now & ~called_off) != round;
  }

  /// Ends this wait, where not all have come, and all later ones.
  void call_off() {
    round_.fetch_or(called_off, std::memory_order_acq_rel);
    round_.notify_all();
  }

 private:
  static constexpr std::uint32_t called_off = 1, next_round = 2;

  const std::uint32_t count_;
  // Each on a cache line of its own (64 bytes on x86-64).
  alignas(64) std::atomic<std::uint32_t> come_{0};
  alignas(64) std::atomic<std::uint32_t> round_{0};
};

}  // namespace fourfold::comm
