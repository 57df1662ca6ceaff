#include "screen/patient_output.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>

namespace fourfold::screen {

void PatientOutput::write(std::string_view text) {
  push(0);
  // Held back or dropped as a whole: a reader never sees the half of a line.
  if (is_broken_ || held_.size() + text.size() > most_held_bytes) return drop(text);
  held_ += text;
  push(0);
}

void PatientOutput::finish(double patience_s) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(patience_s);
  while (!held_.empty() && !is_broken_) {
    const std::chrono::duration<double, std::milli> left = deadline - Clock::now();
    if (!push(std::max(0, static_cast<int>(left.count()))) && left.count() <= 0) break;
  }
  drop(held_);
  held_.clear();
}

/// Writes as much as is taken; whether that was anything.
bool PatientOutput::push(int patience_ms) {
  std::size_t written = 0;
  while (written < held_.size()) {
    pollfd entry{descriptor_, POLLOUT, 0};
    if (::poll(&entry, 1, patience_ms) != 1) break;
    // A pipe that can be written to takes PIPE_BUF bytes without waiting.
    const std::size_t piece = std::min<std::size_t>(held_.size() - written, PIPE_BUF);
    const ssize_t count = ::write(descriptor_, held_.data() + written, piece);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) break;
    if (count < 0) {
      is_broken_ = true;
      drop(std::string_view(held_).substr(written));
      written = held_.size();
      break;
    }
    written += static_cast<std::size_t>(count);
  }
  held_.erase(0, written);
  return written > 0;
}

void PatientOutput::drop(std::string_view text) {
  lines_lost_ += std::count(text.begin(), text.end(), '\n');
}

}  // namespace fourfold::screen
