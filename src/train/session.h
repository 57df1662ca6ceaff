// The loop around the step: initial weights, learning rate, evaluation, and the stop when numbers
// go bad. What a step computes is in the program; what is shown and written is up to observers.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/manifest.h"
#include "comm/world.h"
#include "data/source.h"
#include "run/executor.h"
#include "train/feeders.h"
#include "train/observer.h"
#include "train/train_spec.h"

namespace fourfold::train {

class Checkpoints;
class StepChecks;

/// Which steps of a run are done here, and what is saved after them.
struct Course {
  std::int64_t first_step = 0;          // steps that are done already; the state is theirs
  std::optional<std::int64_t> stop_at;  // ends after so many steps; the schedule stays
  Checkpoints* checkpoints = nullptr;   // null: nothing is saved
  /// After the initial weights of a run that begins: may put others in their place.
  std::function<void()> after_init = {};
  /// What the last step that is done already has to tell, where it has still to be evaluated.
  std::optional<checkpoint::Untold> untold = {};
  /// Every so many steps, but not after the last one, the model writes a text; 0: never. All ranks
  /// write together, and only the text of those with observers counts. It must leave the state
  /// alone. Nothing is returned where a stop cut the text.
  std::int64_t sample_interval = 0;
  std::function<std::optional<std::string>()> write_sample = {};
};

class Session {
 public:
  /// The bundle must have the programs init, train and evaluate. `world` is null where this rank is
  /// alone; otherwise all ranks do the same, and only those with observers tell of it. Everything
  /// passed must outlive the session.
  Session(const TrainSpec& spec, const RunFacts& facts, run::Executor& executor,
          const data::Source& source, std::span<Observer* const> observers,
          comm::World* world = nullptr);

  /// Makes the initial weights.
  void init();
  /// The steps of the course, of spec.steps in all. Evaluates every spec.eval_interval steps on
  /// spec.eval_batches batches, after the last step on the whole split; that step is saved before.
  /// A stop ends an evaluation or a text after the batch or token that is under way: the state is
  /// saved with what its step had to tell. Errors:
  /// UserError(numeric_stop) at the first step whose update was not applied, with the first bad
  /// tensor by name; the weights are then those of the step before; after an evaluation without a
  /// finite loss, once it is saved; and where StepChecks says so.
  TrainResult train(const Course& course = {});

 private:
  op::StepBlock block_of(std::int64_t step) const;
  struct Done {
    StepMetrics metrics;
    op::Votes votes;
  };
  op::StepBlock start(std::int64_t step, const Checkpoints* checkpoints);
  /// Finishes the first step that was started.
  Done finish(const op::StepBlock& block);
  /// True if the step after so many may begin before they are done: nothing is to be seen of their
  /// state. The same on all ranks.
  bool may_be_followed(std::int64_t steps_done, const Course& course) const;
  bool is_sample_due(std::int64_t steps_done, const Course& course) const;
  bool is_evaluation_due(std::int64_t steps_done) const;
  StepMetrics metrics_of(const checkpoint::Untold& step, std::int64_t steps_done) const;
  /// Evaluation and text after a step, where they are due; false where a stop cut them.
  bool look_at_state(StepMetrics& metrics, const Course& course);
  /// What has become of the run.
  struct Standing;
  /// All that follows a step: evaluation, text, what is told, what is saved. `is_followed`: the
  /// next step has begun, and nothing is saved.
  void conclude(StepMetrics metrics, const op::Votes& votes, bool is_followed, const Course& course,
                Standing& standing);
  [[noreturn]] void stop_for_evaluation(const StepMetrics& metrics) const;
  [[noreturn]] void stop(const op::StepBlock& block, const op::ResultBlock& result);
  /// What made a step unfit to be applied; the same text on all ranks.
  std::string find_cause(const op::StepBlock& block);

  const TrainSpec& spec_;
  const RunFacts& facts_;
  run::Executor& executor_;
  const data::Source& source_;
  std::span<Observer* const> observers_;
  comm::World* world_;
  TrainFeeder feeder_;
};

/// A whole run: init, unless the course begins after a checkpoint, then train.
TrainResult train(const TrainSpec& spec, const RunFacts& facts, run::Executor& executor,
                  const data::Source& source, std::span<Observer* const> observers,
                  comm::World* world = nullptr, const Course& course = {});

}  // namespace fourfold::train
