// What a step of a training run should take on the machine that run.machine names, beside what it
// took: said when the run is over, and kept in its folder. For the first rank.
//
// The time of a step is always known, and where there are several ranks how long the first of them
// stood still for communication. Which work it went into is known of the steps that --trace N
// records: nothing else is measured, so that a step costs nothing more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/rows.h"
#include "job/job.h"
#include "screen/log.h"
#include "simulate/by_analogy.h"
#include "trace/comparison.h"
#include "trace/timeline.h"
#include "train/observer.h"

namespace fourfold::training_run {

/// A step as it was predicted.
struct PredictedStep {
  std::string machine;
  double step_s = 0;
  double exposed_s = 0;  // in which the math stream of the first rank stands still for exchanges
  trace::Timeline timeline;  // of the ranks that were followed, one of each class where that is all
  std::vector<simulate::ByAnalogy> by_analogy = {};  // what of it nobody measured on the machine
};

/// The step of a job's ranks on the machine that the configuration names; nothing where that is
/// left open, or where the machine cannot take the job, which a warning says. Errors: those of
/// job::machine_of. Cost: that of simulate::simulate.
std::optional<PredictedStep> predict_step(const job::Job& job, screen::Log& log);

/// A step as it was predicted and as it was measured.
struct StepBeside {
  std::string machine;
  trace::Beside step;  // measured: the median of the steps
  std::int64_t num_steps =
      0;  // that were measured; the first one of a start is not, if there are more
  std::int64_t last_step = 0;
  std::int64_t num_traced = 0;
  /// Every kind of work of the traced steps; together they are the step. Without such steps, and
  /// with several ranks: the exposed communication of the first one and all else, as medians.
  std::vector<trace::Beside> kinds;
  std::vector<trace::Beside> worst;                  // instructions of the traced steps
  std::vector<simulate::ByAnalogy> by_analogy = {};  // of what was predicted
};

/// Rows for the box at the end of a run: how far the step was off, which work most, and what was
/// predicted by analogy.
Rows to_rows(const StepBeside& beside);
/// All numbers; times in seconds.
Json to_json(const StepBeside& beside);

/// Watches the steps of a run. Keeps some of their times, in memory that does not grow.
class StepsBeside : public train::Observer {
 public:
  /// `predicted` must outlive this.
  explicit StepsBeside(const PredictedStep& predicted) : predicted_(predicted) {}

  void step(const train::StepMetrics& metrics) override;
  void end(const train::TrainResult& /*result*/) override {}
  /// The steps of all ranks that were traced.
  void add_timeline(const trace::Timeline& measured);

  /// Nothing before the first step.
  std::optional<StepBeside> result() const;

 private:
  /// Some of many values, evenly spread over them.
  class Sample {
   public:
    void add(double value);
    double median() const;

   private:
    std::vector<double> values_;
    std::int64_t count_ = 0, stride_ = 1;
  };

  const PredictedStep& predicted_;
  std::int64_t num_steps_ = 0, last_step_ = 0;
  std::optional<double> first_s_, first_exposed_s_;  // of the first step of this start
  Sample times_s_, exposed_s_;
  bool has_ranks_ = false;
  std::optional<trace::Comparison> traced_;
  std::int64_t num_traced_ = 0;
};

}  // namespace fourfold::training_run
