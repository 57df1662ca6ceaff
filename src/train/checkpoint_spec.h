// When a run's state is saved, and what stays: filled by config/, read by train/.
#pragma once

#include <cstdint>

namespace fourfold::train {

struct CheckpointSpec {
  std::int64_t interval_steps = 0;  // between saves; 0: not by steps
  double interval_minutes = 15;     // between saves; 0: not by time
  std::int64_t keep_last = 3;
  std::int64_t keep_every = 0;  // also steps that are a multiple of it; 0: none
  std::int64_t keep_best = 0;   // also those of the lowest validation losses
  bool in_background = true;    // files are written beside the steps that follow
  bool operator==(const CheckpointSpec&) const = default;

  /// True if anything is saved at all, the end of the run included.
  bool is_on() const { return interval_steps > 0 || interval_minutes > 0; }
};

}  // namespace fourfold::train
