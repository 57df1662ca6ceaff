// What the session tells those who watch a run, and how they are told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fourfold::train {

/// What the session cannot see in the program: counted from the model, known from the plan.
struct RunFacts {
  std::int64_t tokens_per_step = 0;
  double model_flops_per_step = 0;   // design.md 8: recomputation does not count
  std::optional<double> peak_flops;  // per second, of all devices of the run
  bool peak_is_measured = false;     // here and now, not known of the device
  std::int64_t memory_bytes = 0;     // of both regions of a rank
};

/// Mean loss per token over validation batches.
struct Evaluation {
  double loss = 0;
  std::int64_t tokens = 0;  // that had a label
  double time_s = 0;
};

/// How long the ranks of a job have computed in a step, waiting left out.
struct ComputeTimes {
  double median_s = 0, slowest_s = 0;
  std::size_t slowest_rank = 0;
};

struct StepMetrics {
  std::int64_t step = 0;  // steps done, this one included: 1, 2, ...
  double loss = 0;        // mean per token, before this step's update
  double lr = 0;
  double grad_norm = 0;  // before clipping
  double time_s = 0;     // without evaluation
  double tokens_per_s = 0;
  double model_flops_per_s = 0;
  std::optional<double> mfu;  // model flops / peak flops
  /// The mathematics of this rank stood still for communication; none where it is alone.
  std::optional<double> exposed_communication_s;
  /// Means over ten steps, behind every tenth of this job, where there are several ranks.
  std::optional<ComputeTimes> compute;
  std::int64_t memory_bytes = 0;         // planned, as in RunFacts
  std::int64_t peak_resident_bytes = 0;  // of this process, so far
  std::optional<Evaluation> evaluation;  // behind this step's update
};

struct TrainResult {
  std::int64_t steps = 0;
  double loss = 0;                            // of the last step
  std::optional<Evaluation> last_evaluation;  // of the whole validation split
  double best_val_loss = 0;
  std::int64_t best_step = 0;  // steps done at the best evaluation
  double time_s = 0;           // of all steps, without evaluation
  double evaluation_time_s = 0;
  bool was_stopped = false;  // asked to, before the last step
  /// Total tokens / total time without the first step, which also brings memory and caches in.
  double tokens_per_s = 0;
};

class Observer {
 public:
  virtual ~Observer() = default;
  /// After so many steps an evaluation begins; the step is told once it is done.
  virtual void evaluating(std::int64_t /*steps_done*/) {}
  virtual void step(const StepMetrics& metrics) = 0;
  virtual void end(const TrainResult& result) = 0;
  /// A checkpoint of the steps told so far begins: a run that goes on from it tells none of them
  /// again.
  virtual void saving() {}
  /// Something that people should know, and that does not end the run.
  virtual void warn(const std::string& /*text*/) {}
};

}  // namespace fourfold::train
