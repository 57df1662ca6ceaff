// Signals that ask a run to save and end.
#pragma once

#include <atomic>

namespace fourfold::comm {

/// While one lives (one in a process): SIGUSR1, SIGTERM and SIGINT (Ctrl-C) set the flag instead of
/// ending the process. The second such signal ends it at once, as if nobody listened.
class StopRequest {
 public:
  /// `answer`: what the first signal writes to standard error at once, because the step that it
  /// waits for may take long; null: nothing. It must outlive this.
  explicit StopRequest(const char* answer = nullptr);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  const std::atomic<bool>& flag() const;
  /// For who else takes such a signal: sets the flag; false if it was set.
  static bool ask();
};

}  // namespace fourfold::comm
