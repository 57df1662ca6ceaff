// What a person at the terminal reads while a run proceeds: plain lines, the same in a file. Every
// value in full precision is in metrics.jsonl.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "train/observer.h"
#include "train/train_spec.h"

namespace fourfold::train {

class Console : public Observer {
 public:
  Console(std::ostream& out, const TrainSpec& spec);

  /// A line behind the first step, behind every spec.log_interval steps and behind the last; one
  /// more for an evaluation. Times and rates are means over the steps since the line before: total
  /// tokens / total time, without evaluation.
  void step(const StepMetrics& metrics) override;
  /// Losses, times, and where the run directory is.
  void end(const TrainResult& result) override;
  void warn(std::string_view text);

 private:
  std::string step_line(const StepMetrics& metrics) const;
  void print(const std::string& line);

  std::ostream& out_;
  TrainSpec spec_;
  int step_width_;
  // Since the line before.
  std::int64_t steps_ = 0;
  double time_s_ = 0, tokens_ = 0, flops_ = 0;
  // Moving average of the time of a step, for the ETA; the first step, which is slow, does not
  // count.
  double average_step_s_ = 0;
  double best_val_loss_ = 0;
  std::int64_t best_step_ = 0;  // 0: no evaluation so far
};

}  // namespace fourfold::train
