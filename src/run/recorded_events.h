// Which events of the program under way the host has recorded, for threads that wait for them. Not
// the events of a device (cuda/device.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/futex.h"

namespace fourfold::run {

/// An event is recorded when it holds the number of the run under way: nothing needs to be reset.
/// No run has the number 0, which events hold that were never recorded.
class RecordedEvents {
 public:
  /// Runs are counted from `first_run` on, modulo 2^32, for tests of the wrap.
  explicit RecordedEvents(std::uint32_t first_run = 0) : run_(first_run) {}

  /// Before the first run.
  void resize(std::size_t count) {
    count_ = count;
    events_ = std::make_unique<Futex[]>(count);
  }
  /// A run begins; between runs.
  void begin_run() {
    if (++run_ == 0) ++run_;
  }

  // For any thread, while a run is under way.

  void record(std::size_t event) { events_[event].store(run_); }
  bool is_recorded(std::size_t event) const { return events_[event].load() == run_; }
  /// Sleeps until the event is recorded. What was written before that is seen after it.
  void wait(std::size_t event) {
    for (std::uint32_t held = events_[event].load(); held != run_;)
      held = events_[event].wait(held);
  }
  /// Lets all waits through.
  void record_all() {
    for (std::size_t event = 0; event < count_; ++event) record(event);
  }

 private:
  std::uint32_t run_;
  std::size_t count_ = 0;
  std::unique_ptr<Futex[]> events_;
};

}  // namespace fourfold::run
