// From what ranks have recorded to a timeline.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "program/program.h"
#include "trace/recorder.h"
#include "trace/timeline.h"

namespace fourfold::trace {

/// What one rank has to tell.
struct Recording {
  std::string host;
  std::vector<RecordedRun> runs;
  /// Added to its times, they are on the clock of rank 0.
  std::int64_t clock_offset_ns = 0;
};

/// The recordings by rank; `program_of` gives the program that a rank ran, `place_of` names it.
/// Requires: as many intervals in each run as the rank's program has instructions.
Timeline make_timeline(const std::vector<Recording>& recordings,
                       const std::function<program::Program(Rank)>& program_of,
                       const std::function<std::string(const program::Program&)>& place_of);

}  // namespace fourfold::trace
