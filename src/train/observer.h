// What the session tells those who watch a run, and how they are told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace fourfold::train {

/// The lowest validation losses of a run so far, those of earlier sessions too.
struct BestSoFar {
  struct Entry {
    std::int64_t step = 0;  // steps done
    double loss = 0;
    bool operator==(const Entry&) const = default;
  };
  std::vector<Entry> lowest;    // the lowest loss first, the earlier step among equals
  std::int64_t since_best = 0;  // evaluations after the best one
  bool operator==(const BestSoFar&) const = default;

  /// An evaluation; a loss that is no number is never among the lowest. Keeps `most` entries, at
  /// least one. Whether it is among them.
  bool add(std::int64_t step, double loss, std::int64_t most);
};

/// Shares of the peak: of the model's flops, and of those of the hardware, which computes some
/// again.
struct Utilization {
  double mfu = 0;
  std::optional<double> hfu = {};  // none where nothing is computed again
  bool operator==(const Utilization&) const = default;
};

/// What the session cannot see in the program: counted from the model, known from the plan.
struct RunFacts {
  CountUnit unit = {};  // of items
  std::int64_t items_per_step = 0;
  double model_flops_per_step = 0;  // design.md 8: recomputation does not count
  /// The same and what is computed again (activation checkpointing); none where nothing is.
  std::optional<double> hardware_flops_per_step = {};
  std::optional<double> peak_flops;  // per second, of all devices of the run
  bool peak_is_measured = false;     // on this machine, not known of the device
  std::int64_t memory_bytes = 0;     // of both regions of a rank
  BestSoFar best = {};               // before the first step here
  bool ranks_share_cores = false;    // so that one may compute longer by chance

  /// What the hardware does where the model's flops have this rate.
  double hardware_flops_per_s(double model_flops_per_s) const {
    if (!hardware_flops_per_step) return model_flops_per_s;
    return model_flops_per_s * (*hardware_flops_per_step / model_flops_per_step);
  }
  /// The shares of the peak; none where the peak is not known, or was measured too low (while the
  /// machine was busy) and would be exceeded.
  std::optional<Utilization> utilization(double model_flops_per_s) const {
    const double hardware = hardware_flops_per_s(model_flops_per_s);
    if (!peak_flops || hardware > *peak_flops) return std::nullopt;
    Utilization shares{model_flops_per_s / *peak_flops};
    if (hardware_flops_per_step) shares.hfu = hardware / *peak_flops;
    return shares;
  }
};

/// Mean loss of an item over validation batches.
struct Evaluation {
  double loss = 0;
  std::int64_t items = 0;  // that had a label
  double time_s = 0;
  /// The same over the batches that every evaluation of the run takes: what is compared with other
  /// evaluations, where this one took more.
  double compared_loss = loss;
  std::int64_t compared_items = items;
  std::optional<double> accuracy = {};  // the part of them that was right, where it is counted
  bool is_of_averages = false;          // of the weights over the steps, as the final weights are

  /// True where this evaluation took more than the others of the run.
  bool is_larger() const { return compared_items < items; }
};

/// How long the ranks of a job have computed in a step, waiting left out.
struct ComputeTimes {
  double median_s = 0, slowest_s = 0;
  std::size_t slowest_rank = 0;
};

struct StepMetrics {
  std::int64_t step = 0;  // steps done, this one included: 1, 2, ...
  double loss = 0;        // mean of the items, before this step's update
  double lr = 0;
  double grad_norm = 0;  // before clipping
  double time_s = 0;     // without evaluation
  CountUnit unit = {};   // of items
  double items_per_s = 0;
  double model_flops_per_s = 0;
  std::optional<Utilization> utilization;
  /// The mathematics of this rank stood still for communication; none where it is alone.
  std::optional<double> exposed_communication_s;
  /// Means over ten steps, after every tenth of this job, where there are several ranks.
  std::optional<ComputeTimes> compute;
  std::int64_t memory_bytes = 0;         // planned, as in RunFacts
  std::int64_t peak_resident_bytes = 0;  // of this process, so far
  std::optional<Evaluation> evaluation;  // after this step's update
  std::string sample;  // a text that the model wrote after this step's update; empty: none
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
  bool ended_early = false;  // the validation loss no longer fell
  /// All items / all time without the first step, which also brings memory and caches in.
  double items_per_s = 0;
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
