#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "comm/clock.h"
#include "comm/launcher.h"
#include "comm/monitor.h"
#include "comm/status.h"
#include "comm/termination.h"
#include "comm/watch.h"

namespace fourfold::comm {

class ThreadMonitor::Watch {
 public:
  Watch(ThreadJob& job, MonitorOptions options)
      : job_(job), options_(std::move(options)), host_(own_placement().host) {
    for (std::size_t rank = 0; rank < job.size(); ++rank) ages_.emplace_back(now_s());
    if (options_.watchdog_s > 0) thread_ = std::thread([this] { loop(); });
  }
  ~Watch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void write_statuses(ExitCode code, const std::string& message) const {
    if (options_.status_folder.empty()) return;
    for (std::size_t rank = 0; rank < job_.size(); ++rank)
      write_status(options_.status_folder, {Rank(rank), host_, getpid(), code, message});
  }

 private:
  void loop() {
    // Eight looks before the watchdog bites; it then bites at most an eighth late.
    while (!stopped_within(options_.watchdog_s / 8))
      if (const auto verdict = look()) return end(*verdict);
  }

  bool stopped_within(double seconds) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return stop_; });
  }

  std::optional<Verdict> look() {
    const double now = now_s();
    // A watcher that slept itself, with the whole process, knows nothing of that time.
    if (now - last_look_s_ > options_.watchdog_s / 2)
      for (Age& age : ages_) age = Age(now);
    last_look_s_ = now;
    std::vector<RankState> states;
    for (std::size_t rank = 0; rank < job_.size(); ++rank) {
      RankState state = state_of(Rank(rank), job_.world(rank).progress());
      ages_[rank].told(now, state.ticks);
      state.unchanged_s = ages_[rank].unchanged_s(now);
      states.push_back(std::move(state));
    }
    return judge(states, options_.watchdog_s);
  }

  void end(const Verdict& verdict) {
    for (const std::string& line : verdict.dump) say(line);
    job_.world(0).abort_all(ExitCode::no_progress, verdict.message);
    if (stopped_within(grace_s)) return;
    say("error: " + verdict.message);
    write_statuses(ExitCode::no_progress, verdict.message);
    if (options_.ended) options_.ended(ExitCode::no_progress, host_);
    if (options_.before_exit) options_.before_exit();
    std::_Exit(static_cast<int>(ExitCode::no_progress));
  }

  void say(const std::string& line) const {
    if (options_.say) return options_.say(line);
    say_on_stderr(line);
  }

  ThreadJob& job_;
  MonitorOptions options_;
  std::string host_;
  std::vector<Age> ages_;
  double last_look_s_ = now_s();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

ThreadMonitor::ThreadMonitor(ThreadJob& job, MonitorOptions options)
    : watch_(std::make_unique<Watch>(job, std::move(options))) {}

ThreadMonitor::~ThreadMonitor() = default;

void ThreadMonitor::write_statuses(ExitCode code, const std::string& message) {
  watch_->write_statuses(code, message);
}

}  // namespace fourfold::comm
