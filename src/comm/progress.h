// What one rank is doing, written by its workers at the cost of a store and read by a watching
// thread without locks. Not a trace: only the present is kept.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace fourfold::comm {

/// Where a worker is, in numbers whose meaning the owner of the workers knows.
struct Place {
  std::size_t program = 0, instruction = 0;
};

/// One worker as the watcher sees it.
struct WorkerState {
  std::string stream;
  std::string doing;        // "instruction 17 (all_reduce p1 in forward(0)) of train"; empty: idle
  bool waits = false;       // for another worker or another rank, as far as the instruction tells
  std::uint32_t begun = 0;  // instructions begun so far, modulo 2^32
  bool operator==(const WorkerState&) const = default;
};

class Progress {
 public:
  static constexpr std::size_t max_workers = 32;

  /// What the numbers of a Place mean.
  struct Description {
    std::string text;
    bool waits = false;
  };
  using Describe = std::function<Description(Place)>;

  /// Names the workers, once their threads exist and before they work. `describe` is called from
  /// the watching thread.
  void set_workers(std::vector<std::string> streams, Describe describe);
  /// The workers are gone, and so is what `describe` refers to.
  void clear_workers();

  /// By the worker's own thread: begins, has finished, an instruction. One store each.
  void begin(std::size_t worker, Place place) noexcept {
    Slot& slot = slots_[worker];
    slot.begun = (slot.begun + 1) & 0xffffffffU;
    slot.place.store(pack(slot.begun, place) | busy, std::memory_order_relaxed);
  }
  void end(std::size_t worker, Place place) noexcept {
    slots_[worker].place.store(pack(slots_[worker].begun, place), std::memory_order_relaxed);
  }

  /// By the owner: a program is under way, none is. Outside programs the host works (it loads,
  /// saves, compiles), and no instruction is expected to finish.
  void begin_program() noexcept { programs_.fetch_add(1, std::memory_order_relaxed); }
  void end_program() noexcept { programs_.fetch_add(1, std::memory_order_relaxed); }
  bool in_program() const noexcept { return programs_.load(std::memory_order_relaxed) % 2 == 1; }
  /// Steps done, for messages.
  void set_step(std::int64_t step) noexcept { step_.store(step, std::memory_order_relaxed); }
  std::int64_t step() const noexcept { return step_.load(std::memory_order_relaxed); }

  /// A number that differs from an earlier one when anything was begun or ended in between.
  std::uint64_t ticks() const noexcept;
  std::vector<WorkerState> workers() const;

 private:
  // A word holds busy (1 bit), program (7), instruction (24), begun (32).
  static constexpr std::uint64_t busy = std::uint64_t{1} << 63;
  static std::uint64_t pack(std::uint64_t begun, Place place) noexcept {
    return (place.program & 0x7fU) << 56 | (place.instruction & 0xffffffU) << 32 | begun;
  }
  // Each on a cache line of its own (64 bytes on x86-64).
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> place{0};
    std::uint64_t begun = 0;  // the worker's own
  };

  std::array<Slot, max_workers> slots_;
  std::atomic<std::uint64_t> programs_{0};
  std::atomic<std::int64_t> step_{0};
  mutable std::mutex mutex_;  // of what follows; workers never take it
  std::vector<std::string> streams_;
  Describe describe_;
};

}  // namespace fourfold::comm
