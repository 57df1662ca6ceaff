// Where a long command stands: a line that moves on a terminal, a line every few seconds elsewhere.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "screen/terminal.h"

namespace fourfold::screen {

/// "37 %  1.20 of 3.24 GiB" with what is told after it, and a bar where there is a terminal. On
/// standard output.
class ProgressLine {
 public:
  explicit ProgressLine(const Terminal& terminal);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  /// The moving line goes away.
  ~ProgressLine();

  /// `done` from 0 to 1. Shows nothing when it has done so a moment ago.
  void show(double done, const std::string& text);

 private:
  Terminal terminal_;
  std::chrono::steady_clock::time_point begin_, last_;
  bool is_shown_ = false;
};

}  // namespace fourfold::screen
