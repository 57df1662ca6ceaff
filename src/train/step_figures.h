// How long a step takes, of a few steps that were trained to find out: figures, rows and JSON. Not
// the steps of a run: metrics.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/rows.h"
#include "train/observer.h"

namespace fourfold::train {

/// AxoNN, section VI: the mean of the last five of ten batches.
inline constexpr std::int64_t bench_batches = 10, counted_batches = 5;

/// Keeps what is told of the steps.
class StepTimes : public Observer {
 public:
  void step(const StepMetrics& metrics) override { steps.push_back(metrics); }
  void end(const TrainResult&) override {}

  std::vector<StepMetrics> steps;
};

struct StepFigures {
  std::int64_t ranks = 1, threads = 1;
  CountUnit unit = {};
  std::vector<double> step_s;
  double mean_s = 0, median_s = 0, least_s = 0, most_s = 0;  // of those that count
  double items_per_s = 0, flops_per_s = 0;
  std::optional<double> exposed_s, peak_flops_per_s, instruction_s;
  std::size_t instructions = 0;
  std::int64_t peak_resident_bytes = 0;
};

/// What the steps say, of which there are bench_batches. Ranks, threads, peak and the fixed cost of
/// an instruction are added by who knows them.
StepFigures figures_of(const std::vector<StepMetrics>& steps, const RunFacts& facts);

Rows to_rows(const StepFigures& figures);
Json to_json(const StepFigures& figures);

}  // namespace fourfold::train
