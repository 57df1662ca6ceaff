#include "trace/make_timeline.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "trace/describe_work.h"

namespace fourfold::trace {
namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

Interval shifted(Interval interval, std::int64_t by_ns) {
  return {interval.begin_ns + by_ns, interval.end_ns + by_ns};
}

Step make_step(const RecordedRun& run, const std::vector<Work>& works, std::int64_t by_ns) {
  Step step{run.step + 1, shifted(run.whole, by_ns), {}};
  step.spans.reserve(works.size());
  for (std::size_t i = 0; i < works.size(); ++i)
    step.spans.push_back({i, shifted(run.instructions[works[i].instruction], by_ns)});
  return step;
}

}  // namespace

Timeline make_timeline(const std::vector<Recording>& recordings,
                       const std::function<program::Program(Rank)>& program_of,
                       const std::function<std::string(const program::Program&)>& place_of) {
  std::int64_t zero_ns = never;
  for (const Recording& recording : recordings)
    for (const RecordedRun& run : recording.runs)
      zero_ns = std::min(zero_ns, run.whole.begin_ns + recording.clock_offset_ns);
  Timeline timeline;
  for (std::size_t rank = 0; rank < recordings.size(); ++rank) {
    const Recording& recording = recordings[rank];
    const program::Program program = program_of(Rank(rank));
    timeline.program = program.kind;
    RankTimeline made{
        rank, place_of(program), recording.host, program.streams, describe_work(program), {}};
    for (const RecordedRun& run : recording.runs) {
      require(run.instructions.size() == program.instructions.size(),
              "a rank has recorded each instruction of its program");
      made.steps.push_back(make_step(run, made.works, recording.clock_offset_ns - zero_ns));
    }
    timeline.ranks.push_back(std::move(made));
  }
  return timeline;
}

}  // namespace fourfold::trace
