// Keeps two jobs from one run directory: a file in it that says who works there and beats as long
// as that job lives. Held by rank 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "comm/launcher.h"

namespace fourfold::rundir {

/// Who holds a run directory.
struct LockHolder {
  std::string host, boot;  // a name; an id of the time since the machine started
  std::string pids;        // of the space in which process numbers hold: containers have their own
  std::int64_t pid = 0, started = 0;  // the process, and its start, which tells it from a later one
  std::string job,
      restart;        // the scheduler's number of the job, and how often it was started again
  std::string since;  // for people
  bool operator==(const LockHolder&) const = default;
};

/// This process.
LockHolder this_holder(const comm::Variable& variable);
/// What is known of the one that holds a lock, without waiting. `here`: a process of this machine,
/// but of another space of process numbers, whose beats can be seen.
enum class HolderState { dead, alive, here, unknown };
/// Dead: a process of this machine that is gone, or an earlier start of this very job, which its
/// scheduler has ended. `is_running`: whether that process of this machine lives.
HolderState state_of(const LockHolder& holder, const LockHolder& own,
                     const std::function<bool(const LockHolder&)>& is_running);
/// Asks the system.
bool is_running(const LockHolder& holder);

/// For a dry run: refuses a folder that could not be held, without holding it and without waiting
/// for a beat. Errors: UserError(output_in_use).
void require_unlocked(const std::string& folder, const LockHolder& own, bool take_over);

struct LockOptions {
  /// The lock of a job whose state is unknown or that stands still may be taken, once it has not
  /// beaten for `patience_s`. That of a job of this machine may be so in any case.
  bool take_over = false;
  double beat_s = 2, patience_s = 10;
  /// Called from a thread of its own when another job has taken the lock: this one must end at
  /// once.
  std::function<void(const std::string&)> on_lost;
};

class RunLock {
 public:
  /// Makes the folder where it is missing. Errors: UserError(output_in_use) that says who holds it
  /// and what to do; UserError(storage).
  RunLock(const std::string& folder, const LockHolder& own, LockOptions options);
  /// Gives the folder back; an empty one that was made for this goes too.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace fourfold::rundir
