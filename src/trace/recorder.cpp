#include "trace/recorder.h"

#include "base/error.h"

namespace fourfold::trace {

Recorder::Recorder(op::ProgramKind program, std::size_t num_instructions, std::size_t num_skipped,
                   std::size_t num_runs)
    : program_(program), num_skipped_(num_skipped), runs_(num_runs) {
  require(num_runs >= 1, "a recorder has room for a run");
  for (RecordedRun& run : runs_) run.instructions.resize(num_instructions);
}

std::span<Interval> Recorder::begin_run(op::ProgramKind program, std::int64_t step) {
  is_recording_ = false;
  if (program != program_ || is_full()) return {};
  if (num_skipped_ > 0) {
    --num_skipped_;
    return {};
  }
  is_recording_ = true;
  runs_[num_recorded_].step = step;
  return runs_[num_recorded_].instructions;
}

void Recorder::end_run(Interval whole) {
  if (!is_recording_) return;
  is_recording_ = false;
  runs_[num_recorded_++].whole = whole;
}

}  // namespace fourfold::trace
