// Time on the wall since a moment.
#pragma once

#include <chrono>

namespace fourfold {

/// Runs from when it is made, by a clock that never goes back.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace fourfold
