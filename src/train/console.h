// What a person reads while a run proceeds: a line of figures now and then, one for an evaluation,
// and on a terminal a line that moves (live_status.h). Every value in full precision is in
// metrics.jsonl; what is said at the end is up to cli/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/screen.h"
#include "train/live_status.h"
#include "train/observer.h"
#include "train/train_spec.h"

namespace fourfold::train {

class Console : public Observer {
 public:
  /// The facts say which figures there are; the screen must outlive the console.
  Console(Screen& screen, const TrainSpec& spec, const RunFacts& facts);

  /// A line after the first step, after every spec.log_interval steps (without one: after each
  /// of the first 10, then about every 10 s) and after the last; one more for an evaluation. Times
  /// and rates are means over the steps since the line before: total tokens / total time, without
  /// evaluation.
  void step(const StepMetrics& metrics) override;
  void evaluating(std::int64_t steps_done) override;
  void end(const TrainResult& result) override;
  void warn(const std::string& text) override;

 private:
  bool is_due(std::int64_t step) const;
  std::vector<Cell> cells(const StepMetrics& metrics) const;
  /// Says once that the steps are faster than the peak.
  void doubt_peak();
  void show_evaluation(const StepMetrics& metrics);

  Screen& screen_;
  TrainSpec spec_;
  RunFacts facts_;
  int step_width_;
  // Sums since the line before.
  std::int64_t steps_ = 0;
  double time_s_ = 0, evaluation_s_ = 0, items_ = 0, flops_ = 0, exposed_s_ = 0;
  // Moving average of the time of a step, for the ETA; the first step, which is slow, does not
  // count.
  double average_step_s_ = 0;
  double best_val_loss_ = 0;
  std::int64_t best_step_ = 0;  // 0: no evaluation so far
  bool doubts_peak_ = false;
  LiveStatus status_;
};

}  // namespace fourfold::train
