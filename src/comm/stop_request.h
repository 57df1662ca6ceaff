// The signals that ask a run to save and end (SIGTERM, SIGINT, SIGUSR1, SIGUSR2), and what they
// mean from the first line of a process to its last.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace fourfold::comm {

/// Holds these signals back in this thread and all that it starts, also across exec: none is lost
/// before somebody listens. For the first line of a process.
void hold_stop_signals();
/// Lets them do what they do by default, those that were held back too: for a process in which
/// nobody is going to listen.
void release_stop_signals();

/// While one lives (one in a process), such a signal asks for a stop. Further ones within a second
/// belong to the same request; a later one ends the process at once, as if nobody listened.
class StopRequest {
 public:
  struct Ways {
    /// Said on standard error when a request is heard that has to wait for a step; empty: nothing.
    std::string answer;
    /// Ends the process at once, from a thread of its own, while there is nothing to save. It does
    /// not return.
    std::function<void()> end_unsaved;
    /// Called for every request that is heard, from a thread of its own; may be empty.
    std::function<void()> heard = {};
  };
  /// Signals that were held back are heard now.
  explicit StopRequest(Ways ways);
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  const std::atomic<bool>& flag() const;
  /// Replaces `end_unsaved`, for a part of a start in which others must be told.
  void set_end_unsaved(std::function<void()> end);
  /// From here on a request sets the flag and nothing else: who trains looks at it.
  void begin_saving();
  /// The run is over and its ranks leave: further signals do nothing, until the process has ended.
  /// A launcher sends SIGTERM to those that leave last.
  void leave();

  /// What a signal means that somebody else took.
  enum class Meaning : std::uint8_t { first, same, again, nothing };
  /// For who else takes such a signal. Does what is to be done for the first one, and nothing for
  /// one that comes again: the caller ends the process.
  static Meaning take();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace fourfold::comm
