// Starts the ranks of a training job: one alone, threads of this process, or one process of those
// that a launcher started.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "comm/launcher.h"
#include "comm/world.h"

namespace fourfold::comm {

/// What every rank does; the world is null where the rank is alone.
using RankBody = std::function<void(World* world)>;

struct LaunchOptions {
  /// Seconds without progress anywhere after which the job ends.
  double watchdog_s = 0;
  /// Where ranks that are processes leave how they ended.
  std::string status_folder;
  /// Ranks that are threads of this process keep to their shares of its cores.
  bool bind_to_cores = false;
  std::function<void()> flush;        // before the process ends at once
  std::function<bool()> ask_to_stop;  // as of MonitorOptions
  std::function<void(ExitCode code, const std::string& host)> ended = {};  // as of MonitorOptions
  /// Tells people why the job ends; of the options that a ProcessJob is made with.
  std::function<void(const std::string&)> report;
};

/// Runs the ranks as threads of this process and waits for them; one rank runs on the calling
/// thread. Errors: the first fault of any rank.
void run_threads(std::int64_t ranks, const LaunchOptions& options, const RankBody& body);

/// This process as one rank of several that a launcher started.
class ProcessJob {
 public:
  /// Starts MPI and the watch over all ranks, which ends with `finish`. The options may lack what
  /// is not known yet. Errors: UserError(bad_config) where the ranks were started alone.
  ProcessJob(const LauncherFacts& facts, const LaunchOptions& options);
  ~ProcessJob();

  World& world();
  /// What the watch goes by from now on.
  void set_options(const LaunchOptions& options);
  /// Does what may fail on some ranks or on all, and lets all know: where any failed, the
  /// first rank reports the first message, and all throw an empty one with its code.
  void together(const std::function<void()>& what);
  /// Runs all that this rank does, and waits for the others; another fault than one of `together`
  /// ends the job on all ranks.
  void run(const std::function<void()>& body);

 private:
  void finish();

  class State;
  std::unique_ptr<State> state_;
};

}  // namespace fourfold::comm
