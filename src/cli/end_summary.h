// What is said when a run is over: a box with its figures, and its loss as a curve.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/curve.h"
#include "train/observer.h"

namespace fourfold::cli {

class EndSummary : public train::Observer {
 public:
  explicit EndSummary(const train::RunFacts& facts) : facts_(facts) {}

  void step(const train::StepMetrics& metrics) override;
  void end(const train::TrainResult& result) override;

  /// Steps, tokens, times, rates, losses, memory planned and resident; and the curve of the loss,
  /// evaluations marked, where there are at least a few steps. Columns as of a terminal; 0: none.
  /// No line end behind the last.
  std::string text(int columns, bool is_unicode) const;

 private:
  std::string figures(bool is_unicode) const;

  train::RunFacts facts_;
  train::TrainResult result_;
  report::Series losses_;
  std::vector<report::Point> evaluations_;
  std::int64_t peak_resident_bytes_ = 0;
  double exposed_s_ = 0;
  bool has_ranks_ = false;
};

}  // namespace fourfold::cli
