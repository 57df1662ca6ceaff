// SIGTERM as news for a watching thread, last words, and the end of another process. The only
// signal handler of this room.
#pragma once

#include <signal.h>

#include <cstdint>
#include <string_view>

#include "base/descriptor.h"

namespace fourfold::comm {

/// While one lives (one in a process), SIGTERM does not end the process but wakes whoever polls
/// `number()`. Then it means again what it meant before.
class Alarm {
 public:
  /// Errors: UserError(environment).
  Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm();

  /// Readable once it rang.
  int number() const { return read_end_.number(); }
  /// Wakes too, from any thread.
  void ring() const;
  /// Silences it; how often SIGTERM came since.
  int answer();

 private:
  struct sigaction before_;
  Descriptor read_end_, write_end_;
};

/// Ends this process as SIGTERM does where nobody listens.
[[noreturn]] void end_by_sigterm();

/// From now on, writing where nobody reads is no reason to die.
void ignore_broken_pipes();

/// A line on standard error, without control characters: it may name a file. Not through stdio: a
/// thread that hangs may hold its lock.
void say_on_stderr(std::string_view line);

/// SIGKILL for a process of this host, a second after this one is gone and its parent has heard of
/// it: launchers report the first process that ends, and that should be one that can say why. Some
/// seconds from now where this one does not go, or nobody asks how it ended.
void kill_later(std::int64_t pid);

/// For a process that has nothing left to do but to end, and that nobody watches any more: another
/// one continues it every second if it is stopped, and sends SIGKILL after `patience_s`.
void see_off_this_process(double patience_s);

}  // namespace fourfold::comm
