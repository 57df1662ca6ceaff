#include "comm/start_watch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <ctime>

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

namespace {

/// The processor time that this process has used, on all its threads.
double processor_s() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

/// The file of the highest number that this process has open, as the system names it; empty: none.
std::string last_opened_file() {
  std::string last;
  constexpr int most_files = 4096;
  for (int number = STDERR_FILENO + 1; number < most_files; ++number) {
    std::array<char, PATH_MAX> path{};
    const std::string link = format("/proc/self/fd/{}", number);
    const ssize_t size = ::readlink(link.c_str(), path.data(), path.size() - 1);
    // Neither a device nor what has no name.
    const std::string name(path.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (name.starts_with('/') && !name.starts_with("/dev/")) last = name;
  }
  return last;
}

}  // namespace

IdleWatch::IdleWatch(double patience_s) : patience_s_(patience_s) {
  thread_ = std::thread([this] { loop(); });
}

IdleWatch::~IdleWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void IdleWatch::set_patience(double patience_s) {
  {
    const std::lock_guard lock(mutex_);
    patience_s_ = patience_s;
  }
  changed_.notify_all();
}

void IdleWatch::loop() {
  // Looking costs less than a ten-thousandth of a second, and a look comes every eighth of the
  // time.
  constexpr double least_share = 0.01, longest_look_s = 2;
  double busy_s = now_s(), used_s = processor_s(), looked_s = busy_s;
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    const double beat_s =
        patience_s_ > 0 ? std::clamp(patience_s_ / 8, 0.01, longest_look_s) : longest_look_s;
    changed_.wait_for(lock, std::chrono::duration<double>(beat_s));
    const double now = now_s(), used = processor_s();
    const bool is_busy = used - used_s > least_share * (now - looked_s);
    const bool has_slept = now - looked_s > 4 * beat_s;  // with the whole process
    if (is_busy || has_slept) busy_s = now;
    used_s = used;
    looked_s = now;
    if (is_over_ || patience_s_ <= 0 || now - busy_s < patience_s_) continue;
    const std::string file = last_opened_file();
    say_on_stderr(
        format("error: the start has not gone on for {}: this process computes nothing and "
               "waits, for a file or a disk that does not answer{}",
               format_duration(now - busy_s), file.empty() ? "" : "; it opened last " + file));
    std::_Exit(static_cast<int>(ExitCode::no_progress));
  }
}

}  // namespace fourfold::comm
