#include "train/live_status.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "base/styled_text.h"
#include "base/units.h"

namespace fourfold::train {
namespace {

/// Five times a second looks alive and costs nothing that can be measured beside a step.
constexpr std::chrono::milliseconds period{200};
constexpr int bar_columns = 20;

std::string bar(double share, bool is_unicode) {
  const int filled = static_cast<int>(share * bar_columns);
  std::string text = "[";
  for (int i = 0; i < bar_columns; ++i)
    text += i < filled ? (is_unicode ? "█" : "=") : (is_unicode ? "·" : " ");
  return text + "]";
}

double seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

std::string status_text(const Moment& m, int columns, bool is_unicode) {
  const double share =
      m.steps == 0 ? 0 : static_cast<double>(m.steps_done) / static_cast<double>(m.steps);
  const std::string number = format("{}", m.steps);
  const std::string step =
      m.evaluates
          ? format("evaluating after step {:>{}}/{}", m.steps_done, number.size(), m.steps)
          : format("step {:>{}}/{}", std::min(m.steps_done + 1, m.steps), number.size(), m.steps);
  std::vector<Cell> cells = {{step, 9},
                             {format("{} {:3.0f}%", bar(share, is_unicode), 100 * share), 6}};
  // Shorter steps would only flicker.
  if (m.evaluates || m.average_step_s >= 1 || m.in_step_s >= 1)
    cells.push_back({m.average_step_s > 0 && !m.evaluates
                         ? format("{} of about {}", format_duration(m.in_step_s),
                                  format_duration(m.average_step_s))
                         : format_duration(m.in_step_s),
                     8});
  cells.push_back({format_duration(m.in_run_s) + " gone", 5});
  if (m.average_step_s > 0 && m.steps_done < m.steps) {
    const double left_s = m.average_step_s * static_cast<double>(m.steps - m.steps_done) -
                          (m.evaluates ? 0 : std::min(m.in_step_s, m.average_step_s));
    cells.push_back({"ETA " + format_duration(std::max(0., left_s)), 7});
  }
  return styled(Style::dim, fit(cells, columns));
}

LiveStatus::LiveStatus(Screen& screen, std::int64_t steps) : screen_(screen) {
  moment_.steps = steps;
  if (screen_.is_live()) thread_ = std::thread([this] { redraw_until_stopped(); });
}

LiveStatus::~LiveStatus() {
  stop();
}

void LiveStatus::step_done(std::int64_t steps_done, double average_step_s) {
  const std::lock_guard lock(mutex_);
  moment_.steps_done = steps_done;
  moment_.average_step_s = average_step_s;
  moment_.evaluates = false;
  step_begin_ = Clock::now();
}

void LiveStatus::evaluating() {
  const std::lock_guard lock(mutex_);
  ++moment_.steps_done;
  moment_.evaluates = true;
  step_begin_ = Clock::now();
}

void LiveStatus::stop() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
  }
  stopped_.notify_all();
  if (!thread_.joinable()) return;
  thread_.join();
  screen_.status("");
}

void LiveStatus::redraw_until_stopped() {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, period, [this] { return stops_; })) {
    Moment moment = moment_;
    moment.in_step_s = seconds(Clock::now() - step_begin_);
    moment.in_run_s = seconds(Clock::now() - begin_);
    lock.unlock();
    screen_.status(status_text(moment, screen_.columns(), screen_.is_unicode()));
    lock.lock();
  }
}

}  // namespace fourfold::train
