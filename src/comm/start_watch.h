// Watches a start: from the beginning of a process until all ranks are connected and a monitor
// watches (monitor.h). No rank hears another one yet, so it looks at the processes of its host, or
// at itself where it is the only one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>

#include "comm/siblings.h"

namespace fourfold::comm {

/// What one rank has seen since it began to wait for the others.
class StartPatience {
 public:
  /// `watchdog_s` as of MonitorOptions, more than 0; `now_s` by any clock that never jumps.
  StartPatience(std::int64_t own_rank, double watchdog_s, double now_s);

  /// True when it is time to look at the siblings: only in a start that is slow.
  bool wants_to_look(double now_s);
  struct Verdict {
    std::string message;  // one line: who, or for how long
    std::optional<std::int64_t> stopped_pid;
  };
  /// Why the job must end: a sibling has been stopped for half of the watchdog's time, all of which
  /// has passed; or host_patience times as much has passed. Ranks say so one after another, the
  /// lowest first, and a launcher ends all when the first one does.
  std::optional<Verdict> judge(std::span<const Sibling> siblings, const std::string& host,
                               double now_s);

 private:
  std::int64_t own_rank_;
  double watchdog_s_, begin_s_, asked_s_;
  std::map<std::int64_t, double> stopped_since_s_;  // by process
  std::set<std::int64_t> speak_before_;             // ranks that were seen to run
};

/// A thread that ends the process with no_progress, and says why, where the ranks do not find each
/// other.
class StartWatch {
 public:
  StartWatch(std::int64_t own_rank, double watchdog_s);
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;
  ~StartWatch();

 private:
  void loop();

  StartPatience patience_;
  double beat_s_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;  // under mutex_
  std::thread thread_;
};

/// Watches the start of a process that has no other ranks to wait for: what it does there, reading,
/// planning, compiling, measuring, computes. Where it has used no processor for `patience_s`, it
/// waits for a file or a disk that does not answer; the process then ends with no_progress, and
/// says so with the file that it opened last.
class IdleWatch {
 public:
  explicit IdleWatch(double patience_s);
  IdleWatch(const IdleWatch&) = delete;
  IdleWatch& operator=(const IdleWatch&) = delete;
  /// Ends the watch.
  ~IdleWatch();
  /// From now on; 0: for ever.
  void set_patience(double patience_s);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  double patience_s_;     // under mutex_
  bool is_over_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace fourfold::comm
