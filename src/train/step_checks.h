// What is looked at after each step, beside its figures: who computes too long, a loss that leaps,
// replicas that drift apart. The figures of a step that went wrong at once are session.h's.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comm/world.h"
#include "op/blocks.h"
#include "run/executor.h"
#include "train/loss_spike.h"
#include "train/observer.h"
#include "train/replica_check.h"
#include "train/stragglers.h"
#include "train/train_spec.h"

namespace fourfold::train {

class StepChecks {
 public:
  /// `world` is null where this rank is alone. All must outlive the checks.
  StepChecks(const TrainSpec& spec, const RunFacts& facts, run::Executor& executor,
             comm::World* world, std::span<Observer* const> observers);

  /// True if the state is looked at after so many steps.
  bool read_state_behind(std::int64_t steps_done) const {
    return replicas_ && steps_done % spec_.replica_check_steps == 0;
  }
  /// Right after the program of a step, before anything is saved of it, on all ranks together;
  /// completes its metrics. Returns what is wrong with its loss, if it leapt. Warnings go to the
  /// observers. Errors: UserError(numeric_stop), the same on all ranks.
  std::optional<std::string> after_step(StepMetrics& metrics, const op::StepBlock& block);

 private:
  void compare_times(StepMetrics& metrics);
  std::optional<std::string> look_at_loss(const StepMetrics& metrics, const op::StepBlock& block);
  void compare_replicas(std::int64_t steps_done);
  void warn(const std::string& text);

  const TrainSpec& spec_;
  const RunFacts& facts_;
  run::Executor& executor_;
  comm::World* world_;
  std::span<Observer* const> observers_;
  LossSpikes spikes_;
  std::optional<Stragglers> stragglers_;
  /// Seconds computed in each of the steps since the ranks last compared them, by step and rank;
  /// zeros for other ranks.
  std::vector<double> compute_s_;
  std::size_t steps_ = 0;
  std::optional<ReplicaCheck> replicas_;
  std::int64_t last_equal_ = 0;  // steps done when replicas were last found equal
};

}  // namespace fourfold::train
