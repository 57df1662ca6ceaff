// What is said when a run is over: a box with its figures, and its loss as a curve.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/rows.h"
#include "report/curve.h"
#include "train/observer.h"

namespace fourfold::training_run {

class EndSummary : public train::Observer {
 public:
  /// `cores`: what is to be known of communication where ranks share cores; empty: they do not.
  explicit EndSummary(const train::RunFacts& facts, std::string cores = {})
      : facts_(facts), cores_(std::move(cores)) {}

  void step(const train::StepMetrics& metrics) override;
  void end(const train::TrainResult& result) override;

  /// Steps, tokens, times, rates, losses, memory planned and resident; and the curve of the loss,
  /// evaluations marked, where there are at least a few steps. Columns as of a terminal; 0: none.
  /// `more`: further rows of the box. No line end after the last.
  std::string text(int columns, bool is_unicode, const Rows& more = {}) const;
  /// True if the run computed faster than the peak that was measured.
  bool exceeds_peak() const;

 private:
  double flops_per_s() const;
  std::string figures(int columns, bool is_unicode, const Rows& more) const;

  train::RunFacts facts_;
  std::string cores_;
  train::TrainResult result_;
  report::Series losses_;
  std::vector<report::Point> evaluations_;
  std::int64_t peak_resident_bytes_ = 0;
  double exposed_s_ = 0;
  bool has_ranks_ = false;
};

}  // namespace fourfold::training_run
