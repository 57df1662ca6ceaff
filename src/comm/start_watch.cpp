#include "comm/start_watch.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "comm/clock.h"
#include "comm/launcher.h"
#include "comm/termination.h"
#include "comm/watch.h"

namespace fourfold::comm {
namespace {

/// How long a rank lets the one before it speak: longer than Open MPI's mpirun takes to end all
/// once one has ended.
constexpr double turn_s = 2;

}  // namespace

StartPatience::StartPatience(std::int64_t own_rank, double watchdog_s, double now_s)
    : own_rank_(own_rank), watchdog_s_(watchdog_s), begin_s_(now_s), asked_s_(now_s) {}

bool StartPatience::wants_to_look(double now_s) {
  if (now_s - asked_s_ > watchdog_s_) {  // slept itself, with the whole process
    begin_s_ = now_s;
    stopped_since_s_.clear();
  }
  asked_s_ = now_s;
  return now_s - begin_s_ >= watchdog_s_ / 2;
}

std::optional<StartPatience::Verdict> StartPatience::judge(std::span<const Sibling> siblings,
                                                           const std::string& host, double now_s) {
  std::map<std::int64_t, double> still;
  for (const Sibling& sibling : siblings) {
    if (sibling.is_stopped) {
      const auto known = stopped_since_s_.find(sibling.pid);
      still[sibling.pid] = known == stopped_since_s_.end() ? now_s : known->second;
      speak_before_.erase(sibling.rank);
    } else if (sibling.rank < own_rank_) {
      speak_before_.insert(sibling.rank);
    }
  }
  stopped_since_s_ = std::move(still);
  const double turn = turn_s * static_cast<double>(speak_before_.size());
  const double waited_s = now_s - begin_s_;
  for (const Sibling& sibling : siblings)
    if (sibling.is_stopped && waited_s >= watchdog_s_ + turn &&
        now_s - stopped_since_s_[sibling.pid] >= watchdog_s_ / 2)
      return Verdict{format("rank {} ({}, pid {}) is stopped, since before all ranks were "
                            "connected; rank {} has waited for {}",
                            sibling.rank, host, sibling.pid, own_rank_, format_duration(waited_s)),
                     sibling.pid};
  if (waited_s < host_patience * watchdog_s_ + turn) return std::nullopt;
  return Verdict{format("the ranks have not found each other for {}: this is rank {} ({}), and at "
                        "least one other has not begun, is stopped or cannot be reached by MPI",
                        format_duration(waited_s), own_rank_, host),
                 std::nullopt};
}

StartWatch::StartWatch(std::int64_t own_rank, double watchdog_s)
    : patience_(own_rank, watchdog_s, now_s()), beat_s_(std::clamp(watchdog_s / 8, 0.05, 2.0)) {
  thread_ = std::thread([this] { loop(); });
}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StartWatch::loop() {
  const std::string host = own_placement().host;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::duration<double>(beat_s_),
                            [this] { return is_over_; })) {
    const double now = now_s();
    if (!patience_.wants_to_look(now)) continue;
    const auto verdict = patience_.judge(siblings(), host, now);
    if (!verdict) continue;
    say_on_stderr("error: " + verdict->message);
    if (verdict->stopped_pid) kill_later(*verdict->stopped_pid);
    std::_Exit(static_cast<int>(ExitCode::no_progress));
  }
}

}  // namespace fourfold::comm
