// The line at the bottom of a terminal that shows a run breathing: how far it is, how long the step
// under way has taken, when it will be done. A thread of its own redraws it, also while a step
// takes minutes. Where the screen has no such line, nothing is started.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "base/screen.h"

namespace fourfold::train {

/// What the line shows.
struct Moment {
  std::int64_t steps_done = 0, steps = 0;
  bool evaluates = false;
  double average_step_s = 0;  // 0: not known yet
  double in_step_s = 0;       // since the step or the evaluation began
  double in_run_s = 0;
};

/// "step 121/2000 [====      ]  6% | 3.2 s of about 8.1 s | 1m02s gone | ETA 2m02s", whatever fits.
std::string status_text(const Moment& moment, int columns, bool is_unicode);

class LiveStatus {
 public:
  LiveStatus(Screen& screen, std::int64_t steps);
  LiveStatus(const LiveStatus&) = delete;
  LiveStatus& operator=(const LiveStatus&) = delete;
  /// Removes the line.
  ~LiveStatus();

  void step_done(std::int64_t steps_done, double average_step_s);
  void evaluating();
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  void redraw_until_stopped();

  Screen& screen_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stops_ = false;
  Moment moment_;
  Clock::time_point step_begin_ = begin_;
  std::thread thread_;
};

}  // namespace fourfold::train
