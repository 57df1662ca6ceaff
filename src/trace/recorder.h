// Room for the times of some steps of one rank, made before the first of them, so that writing one
// down is a store. It knows neither ranks nor what the instructions are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "op/program_kind.h"
#include "trace/interval.h"

namespace fourfold::trace {

/// When one run of a program and each of its instructions ran.
struct RecordedRun {
  std::int64_t step = 0;  // as in the step block: 0, 1, ...
  Interval whole;
  std::vector<Interval> instructions;
};

class Recorder {
 public:
  /// Records `num_runs` runs of the program, after `num_skipped` that bring memory and caches in.
  /// Allocates and touches 16 bytes an instruction and run.
  Recorder(op::ProgramKind program, std::size_t num_instructions, std::size_t num_skipped,
           std::size_t num_runs);

  /// A program begins: where the times of its instructions go; empty when it is none of those to
  /// be recorded. Neither allocates nor waits, as all that is called while a program runs.
  std::span<Interval> begin_run(op::ProgramKind program, std::int64_t step);
  /// It has ended.
  void end_run(Interval whole);

  /// Nothing more will be recorded.
  bool is_full() const { return num_recorded_ == runs_.size(); }
  /// So far, in their order.
  std::span<const RecordedRun> runs() const { return std::span(runs_).first(num_recorded_); }

 private:
  op::ProgramKind program_;
  std::size_t num_skipped_;
  std::vector<RecordedRun> runs_;
  std::size_t num_recorded_ = 0;
  bool is_recording_ = false;
};

}  // namespace fourfold::trace
