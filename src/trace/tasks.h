// The tasks that a rank did in a step, with the time of each. Not when it should have done them
// (pipeline/timing.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/timeline.h"

namespace fourfold::trace {

/// A task of a micro-batch, from its first computation to its last, and so without what it waits
/// for at its ends.
struct DoneTask {
  std::string kind;        // "forward" of "forward(3)"
  std::int64_t micro = 0;  // 3 of "forward(3)"
  /// How often the rank did a task of that name before, with others in between: a rank of several
  /// stages does one for each.
  std::size_t turn = 0;
  double begin_s = 0, end_s = 0;
};

/// In the order in which the rank did them. Works whose task has no micro-batch are left out.
std::vector<DoneTask> tasks_of(const RankTimeline& rank, const Step& step);

}  // namespace fourfold::trace
