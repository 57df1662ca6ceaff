#include "screen/progress_line.h"

#include <algorithm>
#include <cstdio>

#include "base/format.h"
#include "base/styled_text.h"
#include "base/units.h"

namespace fourfold::screen {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds between_frames(100), between_lines(5000);

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::string bar(double done, bool is_unicode) {
  constexpr int cells = 24;
  const int full = static_cast<int>(done * cells);
  std::string text = "[";
  for (int cell = 0; cell < cells; ++cell)
    text += cell < full ? (is_unicode ? "\u2588" : "#") : (is_unicode ? "\u2591" : ".");
  return text + "] ";
}

}  // namespace

ProgressLine::ProgressLine(const Terminal& terminal)
    : terminal_(terminal), begin_(Clock::now()), last_(begin_ - between_frames) {
  if (!terminal_.is_live) last_ = begin_;
}

ProgressLine::~ProgressLine() {
  if (!is_shown_) return;
  std::printf("\r\033[K");
  std::fflush(stdout);
}

void ProgressLine::show(double done, const std::string& text) {
  const auto now = Clock::now();
  if (now - last_ < (terminal_.is_live ? Clock::duration(between_frames) : between_lines)) return;
  last_ = now;
  done = std::clamp(done, 0.0, 1.0);
  const double elapsed_s = seconds_between(begin_, now);
  const std::string rest = done > 0 && done < 1 && elapsed_s > 1
                               ? format(", {} left", format_duration(elapsed_s * (1 - done) / done))
                               : "";
  const std::string line = format("{:3.0f} %  {}{}", 100 * done, without_controls(text), rest);
  if (!terminal_.is_live) {
    std::printf("%s\n", line.c_str());
  } else {
    const std::string whole = bar(done, terminal_.is_unicode) + line;
    const int columns = terminal_.columns();
    const auto room = static_cast<std::size_t>(std::max(columns - 1, 20));
    std::printf("\r\033[K%s", first_columns(whole, room).c_str());
    is_shown_ = true;
  }
  std::fflush(stdout);
}

}  // namespace fourfold::screen
