// Watches the ranks of a job from a thread of its own: who died, who hangs, and the end of the job
// on all ranks with the right code. It takes no lock that a working thread holds for long.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "comm/mpi.h"
#include "comm/threads.h"

namespace fourfold::comm {

struct MonitorOptions {
  /// Seconds without any progress after which the job is taken to hang; 0: for ever.
  double watchdog_s = 0;
  /// Where each rank leaves how it ended (status.h); empty: nowhere.
  std::string status_folder;
  /// Shows a line to people; standard error when empty. Called from the watching thread.
  std::function<void(std::string_view)> say;
  /// Called just before the process ends at once: flushes logs. May be empty.
  std::function<void()> before_exit;
  /// Called for SIGTERM instead of ending the process; false: the process is to end. May be empty:
  /// the first one ends it. For ranks that are processes.
  std::function<bool()> ask_to_stop;
  /// Called by the rank that speaks for the job when it ends before its time: the code, and the
  /// host of the rank that was lost or late, empty where no rank is at fault. May be empty.
  std::function<void(ExitCode code, const std::string& host)> ended = {};
};

/// For ranks that are threads. When the job hangs it says what each rank waits for and ends the job
/// with no_progress: the ranks that wait are released with Aborted, and ThreadJob::run throws;
/// where a rank does not come back within `grace_s`, the process ends with that code.
class ThreadMonitor {
 public:
  static constexpr double grace_s = 2;

  ThreadMonitor(ThreadJob& job, MonitorOptions options);
  ~ThreadMonitor();
  /// Writes how the job ended into each rank's status file: for the end of a job, good or bad.
  void write_statuses(ExitCode code, const std::string& message);

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

/// For ranks that are processes. They are connected by TCP, apart from MPI, and tell each other
/// several times a second what they do. Within a second or so of a rank's death one of the others
/// says who died, where it was last seen and where the one that speaks is; each leaves the same of
/// itself in its status, and all end with peer_lost. When the job hangs, all end with no_progress,
/// and the one that is late is named; a fault of one rank (World::abort_all) is said once, and all
/// end with its code. SIGTERM asks for a stop, where there is somebody to ask; the second one waits
/// for such news for half a second, because launchers send it to all when one dies, and then ends
/// the process as ever.
///
/// One in a process, on all ranks together, constructed and destroyed on the thread that made the
/// world.
class MpiMonitor {
 public:
  /// Where the ranks cannot connect, it warns, and only the launcher notices who dies.
  MpiMonitor(MpiWorld& world, MonitorOptions options);
  /// What holds from now on; `say` stays as it was.
  void set_options(MonitorOptions options);
  /// Also when the constructing thread unwinds: it then leaves without a farewell, and the others
  /// take this rank for dead.
  ~MpiMonitor();

  /// The good end, before MpiWorld::finish: waits for all ranks and leaves their statuses. All
  /// ranks call together.
  void finish();
  /// The last call, after MpiWorld::finish: returns once all ranks have come here, on rank 0 once
  /// the processes of all others are gone. Those that do not come or do not go are late.
  void part();

 private:
  class Watch;
  std::unique_ptr<Watch> watch_;
};

}  // namespace fourfold::comm
