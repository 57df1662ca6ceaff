// What a page shows of a run: plain values, from wherever they were read. Nothing is drawn here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/curve.h"

namespace fourfold::report {

/// The lines of metrics.jsonl, by column. Points are (step, value), in rising steps; a step that
/// was done again behind a restart has its last value.
struct Metrics {
  std::vector<Point> loss, val_loss, grad_norm, lr, tokens_per_s, step_time_s, mfu,
      exposed_communication_s;
  std::int64_t steps = 0;                // of the last line
  double time_s = 0, tokens = 0;         // of all steps
  std::int64_t memory_bytes = 0;         // planned, of a rank
  std::int64_t peak_resident_bytes = 0;  // of the first rank's process
  std::int64_t unread_lines = 0;         // torn, or no metrics
  std::int64_t not_finite = 0;           // losses that were no numbers
  std::string fault;                     // why there is nothing; empty: there is
};

struct Fact {
  std::string name, value;
};

struct SavedCheckpoint {
  std::int64_t step = 0;
  std::int64_t size_bytes = 0;
  std::string remark;  // the grid; what is wrong with it
};

struct Run {
  std::string name, path;
  Metrics metrics;
  std::vector<Fact> config, environment;
  std::string plan;    // as plan.txt has it
  std::string sample;  // of text; empty: none
  std::vector<SavedCheckpoint> checkpoints;
  std::vector<std::string> notes;  // what could not be read, and what looks odd
};

/// Reads a file of one JSON object a line, of any length. Whatever cannot be read is counted.
Metrics read_metrics(const std::string& path);

}  // namespace fourfold::report
