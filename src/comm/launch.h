// Starts the ranks of a training job: one alone, threads of this process, or one process of those
// that a launcher started.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "comm/launcher.h"
#include "comm/world.h"

namespace fourfold::comm {

class IdleWatch;

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

/// The processes of a job before its ranks run, as one of them sees them: what one of them finds
/// out, all are told, and what fails in one ends all.
class Together {
 public:
  Together() = default;
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;
  virtual ~Together() = default;

  /// The processes, of which each is a rank; null where this one is alone.
  virtual World* world() = 0;
  /// Does what may fail in some processes or in all. Errors: where any failed, all throw.
  virtual void each(const std::function<void()>& what) = 0;
  /// For how many seconds the processes may stand still before their ranks run.
  virtual void set_patience(double seconds) = 0;
  /// Runs the ranks of the job and waits for those of this process. Throws their faults.
  virtual void run_ranks(std::int64_t ranks, const LaunchOptions& options,
                         const RankBody& body) = 0;

  /// Gives each process what it made, where no process fails. Throws as `each` does.
  template <class Make>
  auto all(Make&& make) {
    std::optional<decltype(make())> made;
    each([&] { made.emplace(make()); });
    return std::move(*made);
  }
  bool is_first();
  /// Returns how many of so many ranks run on this host.
  std::int64_t ranks_here(std::int64_t ranks);
  /// The texts of all processes, in their order, which call together.
  std::vector<std::string> gather(const std::string& own);
  /// Lets the first process alone do this, while the others wait. Throws as `each` does.
  void first(const std::function<void()>& what);
  /// The least number of all processes, which call together.
  std::int64_t least(std::int64_t own);
};

/// This process alone: its ranks are threads. Watches that it does not stand still until they run.
class OneProcess final : public Together {
 public:
  explicit OneProcess(double patience_s);
  ~OneProcess() override;

  World* world() override { return nullptr; }
  void each(const std::function<void()>& what) override { what(); }
  void set_patience(double seconds) override;
  void run_ranks(std::int64_t ranks, const LaunchOptions& options, const RankBody& body) override;

 private:
  std::unique_ptr<IdleWatch> watch_;
};

/// This process as one rank of several that a launcher started.
class ProcessJob final : public Together {
 public:
  /// Starts MPI and the watch over all ranks, which ends with `run`. The options may lack what is
  /// not known yet. Errors: UserError(bad_config) where the ranks were started alone.
  ProcessJob(const LauncherFacts& facts, const LaunchOptions& options);
  ~ProcessJob() override;

  World* world() override;
  /// The first rank reports the first message where any failed, and all ranks throw an empty one
  /// with its code.
  void each(const std::function<void()>& what) override;
  /// The watch has its time from the options.
  void set_patience(double /*seconds*/) override {}
  /// Runs the one rank of this process, after all processes have come so far. From here on the
  /// watch goes by these options.
  void run_ranks(std::int64_t ranks, const LaunchOptions& options, const RankBody& body) override;
  /// Runs all that this process does, and waits for the others; another fault than one of `each`
  /// ends the job on all ranks.
  void run(const std::function<void()>& body);

 private:
  void finish();

  class State;
  std::unique_ptr<State> state_;
};

}  // namespace fourfold::comm
