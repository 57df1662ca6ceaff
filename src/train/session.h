// The loop around the step: initial weights, learning rate, evaluation, and the stop when numbers
// go bad. What a step computes is in the program; what is shown and written is up to observers.
#pragma once

#include <optional>
#include <span>

#include "data/dataset.h"
#include "run/executor.h"
#include "train/observer.h"
#include "train/train_spec.h"

namespace fourfold::train {

class Session {
 public:
  /// The bundle must have the programs init, train and evaluate. Everything passed must outlive the
  /// session.
  Session(const TrainSpec& spec, const RunFacts& facts, run::Executor& executor,
          const data::Dataset& dataset, std::span<Observer* const> observers);

  /// Makes the initial weights.
  void init();
  /// Steps 0 ... spec.steps - 1. Evaluates every spec.eval_interval steps on spec.eval_batches
  /// batches, behind the last step on the whole split. Errors: UserError(numeric_stop) at the first
  /// step whose update was not applied, with the first bad tensor by name; the weights are then
  /// those of the step before.
  TrainResult train();

 private:
  StepMetrics do_step(std::int64_t step);
  std::optional<Evaluation> evaluate_when_due(std::int64_t steps_done);
  [[noreturn]] void stop(const op::StepBlock& block, const op::ResultBlock& result,
                         run::Feeder& feeder);

  const TrainSpec& spec_;
  const RunFacts& facts_;
  run::Executor& executor_;
  const data::Dataset& dataset_;
  std::span<Observer* const> observers_;
};

/// A whole run: init, then train.
TrainResult train(const TrainSpec& spec, const RunFacts& facts, run::Executor& executor,
                  const data::Dataset& dataset, std::span<Observer* const> observers);

}  // namespace fourfold::train
