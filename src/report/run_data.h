// What a page shows of a run: plain values, from wherever they were read. Nothing is drawn here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/curve.h"

namespace fourfold::report {

/// A text that the model wrote after a step of its training.
struct Sample {
  std::int64_t step = 0;
  std::string text;
};

/// The lines of metrics.jsonl, by column. Points are (step, value), in rising steps; a step that
/// was done again after a restart has its last value.
struct Metrics {
  std::vector<Point> loss, val_loss, val_accuracy, grad_norm, lr, items_per_s, step_time_s, mfu,
      hfu, exposed_communication_s;
  /// The last evaluation of more batches than the others take: its loss of all of them. Its point
  /// of val_loss is of the batches that every evaluation takes.
  std::optional<Point> val_loss_of_all;
  bool val_is_of_averages = false;  // of the weights over the steps, in the last evaluation
  std::string unit;  // what is counted, in the plural: "tokens"; empty: no line tells
  /// How many items were read up to a step: where their number a step changes, and at the last
  /// step; straight between. Steps that no line tells of are taken to be like the next one. Empty:
  /// not known.
  std::vector<Point> items_read;
  std::vector<Sample> samples;           // in rising steps
  std::int64_t steps = 0;                // of the last line
  double time_s = 0, items = 0;          // of all steps
  std::optional<double> mean_mfu;        // of the time of all steps that have one
  std::optional<double> mean_hfu;        // the same
  std::int64_t memory_bytes = 0;         // planned, of a rank
  std::int64_t peak_resident_bytes = 0;  // of the first rank's process
  std::int64_t unread_lines = 0;         // torn, or no metrics
  std::int64_t not_finite = 0;           // losses that were no numbers
  std::string fault;                     // why there is nothing; empty: there is
};

struct Fact {
  std::string name, value;
};

/// One start of the run.
struct RunSession {
  std::int64_t number = 1;
  std::int64_t first_step = 0;  // steps that were done before it
  std::optional<std::int64_t>
      last_step;       // steps done at its end; none: it was killed, or works yet
  bool counts = true;  // a later one did not do all of its steps again
  std::optional<std::int64_t> counts_to;  // the step after which a later one did the rest again
  std::string command;
  std::vector<std::string> changes;  // against the one before: "optimizer.lr: 0.003 -> 0.001"
};

struct SavedCheckpoint {
  std::int64_t step = 0;
  std::int64_t size_bytes = 0;
  std::string remark;  // the grid; what is wrong with it
};

/// Seconds of a step that went into one kind of work, or into one instruction.
struct PredictedWork {
  std::string what;
  double predicted_s = 0, measured_s = 0;
};

/// What a step was predicted to take on a machine, and what it took.
struct PredictedStep {
  std::string machine;
  PredictedWork step;          // measured: the median of the steps
  std::int64_t num_steps = 0;  // that were measured
  std::int64_t last_step = 0;
  std::int64_t num_traced = 0;       // steps whose work is known
  std::vector<PredictedWork> kinds;  // together the step
  std::vector<PredictedWork> worst;  // instructions whose predictions are furthest off
};

struct Run {
  std::string name, path;
  Metrics metrics;
  std::vector<Fact> config, environment;
  std::string plan;                        // as plan.txt has it
  std::string grids;                       // among which the planner chose; empty: it did not
  std::optional<PredictedStep> predicted;  // none: the run names no machine
  std::string sample;                      // of text, after the last step; empty: none
  std::vector<RunSession> sessions;        // the first one first
  std::vector<SavedCheckpoint> checkpoints;
  std::vector<std::string> notes;  // what could not be read, and what looks odd
};

/// Reads a file of one JSON object a line, of any length. Whatever cannot be read is counted.
Metrics read_metrics(const std::string& path);

}  // namespace fourfold::report
