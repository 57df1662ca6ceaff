#include "comm/progress.h"

#include <utility>

#include "base/error.h"

namespace fourfold::comm {

void Progress::set_workers(std::vector<std::string> streams, Describe describe) {
  require(streams.size() <= max_workers, "a rank has at most 32 streams");
  const std::lock_guard lock(mutex_);
  streams_ = std::move(streams);
  describe_ = std::move(describe);
}

void Progress::clear_workers() {
  const std::lock_guard lock(mutex_);
  streams_.clear();
  describe_ = nullptr;
}

std::uint64_t Progress::ticks() const noexcept {
  std::uint64_t sum = programs_.load(std::memory_order_relaxed);
  // Twice the number begun, less one while the last is under way: grows at each begin and end.
  for (const Slot& slot : slots_) {
    const std::uint64_t word = slot.place.load(std::memory_order_relaxed);
    sum += 2 * (word & 0xffffffffU) - (word >> 63);
  }
  return sum;
}

std::vector<WorkerState> Progress::workers() const {
  const std::lock_guard lock(mutex_);
  std::vector<WorkerState> states;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const std::uint64_t word = slots_[i].place.load(std::memory_order_relaxed);
    WorkerState state;
    state.stream = streams_[i];
    state.begun = static_cast<std::uint32_t>(word & 0xffffffffU);
    if ((word & busy) != 0) {
      const Place place{static_cast<std::size_t>(word >> 56 & 0x7fU),
                        static_cast<std::size_t>(word >> 32 & 0xffffffU)};
      const Description description = describe_(place);
      state.doing = description.text;
      state.waits = description.waits;
    }
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace fourfold::comm
