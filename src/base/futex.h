// A word of 32 bits that threads sleep on until it changes. std::atomic::wait yields the core
// several times before it sleeps: with more threads than cores, each time is a turn of another
// thread, and on a core that something else uses, a slice of several milliseconds.
#pragma once

#include <atomic>
#include <cstdint>

namespace fourfold {

/// Who changes the word publishes all that it wrote before to those who see the change. Changing
/// costs a system call only where somebody sleeps.
class Futex {
 public:
  explicit Futex(std::uint32_t value = 0) : word_(value) {}

  std::uint32_t load(std::memory_order order = std::memory_order_acquire) const {
    return word_.load(order);
  }
  void store(std::uint32_t value) {
    word_.store(value);
    wake();
  }
  /// Stores `value` where the word is `expected`; true if it was.
  bool exchange_if(std::uint32_t expected, std::uint32_t value) {
    const bool stored = word_.compare_exchange_strong(expected, value);
    if (stored) wake();
    return stored;
  }
  void set_bits(std::uint32_t bits) {
    word_.fetch_or(bits);
    wake();
  }

  /// Sleeps while the word is `value`; returns what it is then. Looks for a moment before it sleeps
  /// (about a microsecond): what is about to change has then cost no system call.
  std::uint32_t wait(std::uint32_t value);

 private:
  /// Whoever goes to sleep is counted before it looks at the word for the last time, and the word
  /// is changed before the count is looked at: in their common order one sees the other.
  void wake() {
    if (sleepers_.load() != 0) wake_all();
  }
  void wake_all();

  std::atomic<std::uint32_t> word_;
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace fourfold
