// Network file systems show what another host has made a little later. Only for files of which this
// rank was told that they are there: rank 0 looks at the folder without patience, and decides.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "base/file_system.h"

namespace fourfold::checkpoint {

/// Longer than the time for which clients of NFS believe what they last saw of a folder (60 s is
/// its default acdirmax; a name that is opened is asked for again, mostly at once).
inline constexpr double default_patience_s = 20;

/// Calls `what` again while the file that it needs is not seen yet, for up to `seconds`.
template <class What>
auto with_patience(double seconds, const What& what) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto pause = std::chrono::milliseconds(10);;
       pause = std::min(2 * pause, std::chrono::milliseconds(500))) {
    try {
      return what();
    } catch (const FileError& error) {
      const bool may_appear = error.error() == ENOENT || error.error() == ESTALE;
      if (!may_appear || Clock::now() + pause > deadline) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace fourfold::checkpoint
