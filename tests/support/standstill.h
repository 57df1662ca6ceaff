// Devices that are made up, whose work waits for one another's: finds that none of them can go on,
// whatever the clock says. Each is driven by one thread, which tells what it does. Header only.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

namespace fourfold::test {

class Standstill {
 public:
  explicit Standstill(std::size_t devices) : devices_(devices) {}

  /// How often something was enqueued or done, on any device: what others may wait for.
  std::int64_t moves() const {
    const std::lock_guard lock(mutex_);
    return moves_;
  }
  void has_moved() {
    const std::lock_guard lock(mutex_);
    ++moves_;
    last_move_ = Clock::now();
  }
  /// Nobody drives this device any more.
  void leave(const void* device) {
    const std::lock_guard lock(mutex_);
    standing_.erase(device);
    --devices_;
  }

  /// A device has looked for work after so many moves and found none; its thread waits for it, as
  /// `why` says. Throws std::logic_error where all devices have looked after the last move, and
  /// where none has moved for a minute, since a thread waits for something else.
  void stand(const void* device, std::int64_t seen, const std::string& why) {
    const std::lock_guard lock(mutex_);
    standing_[device] = {seen, why};
    const auto stands = [&](const auto& one) { return one.second.seen == moves_; };
    const bool is_late = Clock::now() - last_move_ > std::chrono::minutes(1);
    if (!is_late && static_cast<std::size_t>(std::ranges::count_if(standing_, stands)) < devices_)
      return;
    std::string text = "devices wait for one another:";
    for (const auto& [one, standing] : standing_) text += " one " + standing.why + ";";
    throw std::logic_error(text);
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Standing {
    std::int64_t seen;
    std::string why;
  };
  mutable std::mutex mutex_;
  std::size_t devices_;
  std::int64_t moves_ = 0;
  Clock::time_point last_move_ = Clock::now();
  std::map<const void*, Standing> standing_;
};

}  // namespace fourfold::test
