// Collectives between threads of one process: members read each other's buffers directly. The part
// of threads.h that moves tensors.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/futex.h"
#include "comm/group.h"

namespace fourfold::comm {

/// Where threads wait until all have come, or until that is called off. Used round after round by
/// the same `count` threads. Waiting threads sleep. What a thread wrote
/// before it came, all see after they left.
class Meeting {
 public:
  explicit Meeting(std::size_t count) : count_(static_cast<std::uint32_t>(count)) {}

  /// Returns true when all have come; false when the meeting was called off before that, and then
  /// false to everyone: all see the same.
  bool wait() {
    const std::uint32_t round = round_.load();
    if ((round & called_off) != 0) return false;
    if (come_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
      come_.store(0, std::memory_order_relaxed);
      return round_.exchange_if(round, round + next_round);
    }
    return (round_.wait(round) & ~called_off) != round;
  }

  /// Ends this wait, where not all have come, and all later ones.
  void call_off() { round_.set_bits(called_off); }

 private:
  static constexpr std::uint32_t called_off = 1, next_round = 2;

  const std::uint32_t count_;
  // Each on a cache line of its own (64 bytes on x86-64).
  alignas(64) std::atomic<std::uint32_t> come_{0};
  alignas(64) Futex round_;
};

/// What the members of one group share.
class ThreadMeetingPlace {
 public:
  /// One member's call.
  struct alignas(64) Call {
    Collective kind = Collective::all_reduce;
    DType type = DType::f32;
    Reduction reduction = Reduction::sum;
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t from_bytes = 0, to_bytes = 0;
  };

  explicit ThreadMeetingPlace(std::size_t count) : calls(count), begin(count), end(count) {}

  std::vector<Call> calls;
  // The first can be called off when the job ends; after it all members work on each other's
  // memory, so all of them come to the second, and none leaves before.
  Meeting begin, end;
};

/// Element i of a reduction is the sum over the members in their order, whoever computes it: the
/// same bits whatever the timing. Nothing is allocated after construction.
class ThreadGroup : public Group {
 public:
  ThreadGroup(GroupSpec spec, std::size_t position, ThreadMeetingPlace& place);

 private:
  void exchange(Collective kind, std::span<const std::byte> from, std::span<std::byte> to,
                DType type, Reduction reduction) override;
  /// What this member does of a call, once all have told theirs: it only touches memory.
  void work(const ThreadMeetingPlace::Call& call);
  void check_calls() const;

  ThreadMeetingPlace& place_;
  std::vector<const std::byte*> terms_;
  std::vector<std::byte*> results_;
};

}  // namespace fourfold::comm
