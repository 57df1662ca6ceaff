#include "train/session.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "run/find_non_finite.h"
#include "schedule/learning_rate.h"
#include "train/checkpoints.h"
#include "train/evaluate.h"
#include "train/feeders.h"
#include "train/step_checks.h"

namespace fourfold::train {
namespace {

/// Sums over the steps of a run, for its result.
class Totals {
 public:
  void add(const StepMetrics& metrics) {
    result_.steps = metrics.step;
    result_.loss = metrics.loss;
    result_.time_s += metrics.time_s;
    if (num_steps_++ == 0) first_time_s_ = metrics.time_s;
    if (!metrics.evaluation) return;
    const Evaluation& evaluation = *metrics.evaluation;
    result_.evaluation_time_s += evaluation.time_s;
    result_.last_evaluation = evaluation;
  }

  /// So many are done, though the last one is not told.
  void set_steps(std::int64_t steps) { result_.steps = steps; }

  TrainResult result(std::int64_t items_per_step, const BestSoFar& best) const {
    TrainResult result = result_;
    if (!best.lowest.empty()) {
      result.best_val_loss = best.lowest[0].loss;
      result.best_step = best.lowest[0].step;
    }
    const bool only_step = num_steps_ == 1;
    const double time_s = only_step ? result.time_s : result.time_s - first_time_s_;
    const std::int64_t steps = only_step ? 1 : num_steps_ - 1;
    if (time_s > 0) result.items_per_s = static_cast<double>(steps * items_per_step) / time_s;
    return result;
  }

 private:
  TrainResult result_;
  std::int64_t num_steps_ = 0;
  double first_time_s_ = 0;
};

bool has_bad_evaluation(const StepMetrics& metrics) {
  return metrics.evaluation && !std::isfinite(metrics.evaluation->loss);
}

bool is_finite(const StepMetrics& metrics) {
  return std::isfinite(metrics.loss) && std::isfinite(metrics.grad_norm) &&
         !has_bad_evaluation(metrics);
}

}  // namespace

Session::Session(const TrainSpec& spec, const RunFacts& facts, run::Executor& executor,
                 const data::Source& source, std::span<Observer* const> observers,
                 comm::World* world)
    : spec_(spec),
      facts_(facts),
      executor_(executor),
      source_(source),
      observers_(observers),
      world_(world),
      feeder_(source) {}

void Session::init() {
  executor_.run(op::ProgramKind::init, {.seed = spec_.seed});
}

struct Session::Standing {
  Totals totals;
  BestSoFar best;
  bool was_stopped = false, ends_early = false;
};

TrainResult Session::train(const Course& course) {
  const std::int64_t end = std::min(course.stop_at.value_or(spec_.steps), spec_.steps);
  const program::Feeds& feeds = executor_.bundle().at(op::ProgramKind::train).feeds;
  StepChecks checks(spec_, facts_, executor_, world_, observers_);
  Standing standing{.totals = {}, .best = facts_.best};
  if (course.checkpoints != nullptr) {
    course.checkpoints->on_save([this] {
      for (Observer* observer : observers_) observer->saving();
    });
    course.checkpoints->before_first(course.first_step,
                                     course.first_step * feeds.micros * feeds.samples,
                                     course.untold, standing.best);
    standing.was_stopped = course.checkpoints->must_stop();
  }
  if (course.untold && !standing.was_stopped)
    conclude(metrics_of(*course.untold, course.first_step), {}, false, course, standing);
  std::optional<op::StepBlock> under_way;  // the step of the next round, where it has begun
  bool is_awaited = false;                 // something is to be done after it
  for (std::int64_t step = course.first_step;
       step < end && !standing.was_stopped && !standing.ends_early; ++step) {
    const op::StepBlock block = under_way ? *under_way : start(step, course.checkpoints);
    const bool is_followed = step + 1 < end && !is_awaited && !checks.read_state_behind(step + 1) &&
                             may_be_followed(step + 1, course);
    under_way.reset();
    if (is_followed) under_way = start(step + 1, course.checkpoints);
    auto [metrics, votes] = finish(block);
    const auto leap = checks.after_step(metrics, block);
    if (leap && course.checkpoints != nullptr) course.checkpoints->protect_last(*leap);
    // The state is that of the next step already. Its votes, from hosts that knew more, say as
    // much.
    is_awaited = is_followed && votes != op::Votes{};
    conclude(std::move(metrics), votes, is_followed, course, standing);
  }
  TrainResult result = standing.totals.result(facts_.items_per_step, standing.best);
  result.was_stopped = standing.was_stopped;
  result.ended_early = standing.ends_early;
  for (Observer* observer : observers_) observer->end(result);
  return result;
}

void Session::conclude(StepMetrics metrics, const op::Votes& votes, bool is_followed,
                       const Course& course, Standing& standing) {
  const program::Feeds& feeds = executor_.bundle().at(op::ProgramKind::train).feeds;
  const std::int64_t done = metrics.step,
                     end = std::min(course.stop_at.value_or(spec_.steps), spec_.steps);
  Checkpoints* const checkpoints = course.checkpoints;
  Checkpoints::Place place{
      .steps_done = done,
      .samples_seen = done * feeds.micros * feeds.samples,
      .votes = votes,
      .best = standing.best,
      .untold = checkpoint::Untold{metrics.loss, metrics.lr, metrics.grad_norm, metrics.time_s}};
  if (checkpoints != nullptr && done == spec_.steps) checkpoints->before_last_evaluation(place);
  if (!look_at_state(metrics, course)) {
    checkpoints->stop_untold(place);
    standing.totals.set_steps(done);
    standing.was_stopped = true;
    return;
  }
  standing.totals.add(metrics);
  const bool is_among_best =
      metrics.evaluation &&
      standing.best.add(done, metrics.evaluation->compared_loss, spec_.checkpoint.keep_best);
  standing.ends_early = metrics.evaluation && spec_.early_stopping > 0 && done < end &&
                        standing.best.since_best >= spec_.early_stopping;
  if (world_ != nullptr) world_->progress().set_step(done);
  for (Observer* observer : observers_) observer->step(metrics);
  const bool is_bad = has_bad_evaluation(metrics);  // and so nothing follows yet
  if (checkpoints != nullptr && !is_followed) {
    place.is_finite = is_finite(metrics);
    place.ends = is_bad || standing.ends_early || done == end;
    place.best = standing.best;
    place.is_among_best = is_among_best;
    place.untold.reset();
    checkpoints->after_step(place);
    standing.was_stopped = checkpoints->must_stop();
  }
  if (is_bad) stop_for_evaluation(metrics);
}

op::StepBlock Session::block_of(std::int64_t step) const {
  const program::Feeds& feeds = executor_.bundle().at(op::ProgramKind::train).feeds;
  return {.step = step,
          .seed = spec_.seed,
          .lr = schedule::learning_rate(spec_.schedule, spec_.steps, step),
          .first_sample = step * feeds.micros * feeds.samples};
}

op::StepBlock Session::start(std::int64_t step, const Checkpoints* checkpoints) {
  op::StepBlock block = block_of(step);
  if (checkpoints != nullptr) block.vote = checkpoints->vote().packed();
  executor_.start(op::ProgramKind::train, block, &feeder_);
  return block;
}

bool Session::may_be_followed(std::int64_t steps_done, const Course& course) const {
  return executor_.runs_ahead() && !is_evaluation_due(steps_done) &&
         !is_sample_due(steps_done, course) &&
         (course.checkpoints == nullptr || !course.checkpoints->is_due_behind(steps_done));
}

bool Session::is_sample_due(std::int64_t steps_done, const Course& course) const {
  return course.sample_interval > 0 && steps_done % course.sample_interval == 0 &&
         steps_done != spec_.steps;
}

Session::Done Session::finish(const op::StepBlock& block) {
  const op::ResultBlock result = executor_.finish();
  if (result.applied == 0) stop(block, result);
  StepMetrics metrics = metrics_of({result.loss_sum / static_cast<double>(result.valid_count),
                                    block.lr, result.grad_norm, executor_.times().total_s},
                                   block.step + 1);
  if (world_ != nullptr)
    metrics.exposed_communication_s = executor_.times().exposed_communication_s;
  return {metrics, op::Votes::of(result.votes)};
}

StepMetrics Session::metrics_of(const checkpoint::Untold& step, std::int64_t steps_done) const {
  StepMetrics metrics;
  metrics.step = steps_done;
  metrics.loss = step.loss;
  metrics.lr = step.lr;
  metrics.grad_norm = step.grad_norm;
  metrics.time_s = step.time_s;
  metrics.unit = facts_.unit;
  metrics.items_per_s = static_cast<double>(facts_.items_per_step) / metrics.time_s;
  metrics.model_flops_per_s = facts_.model_flops_per_step / metrics.time_s;
  metrics.utilization = facts_.utilization(metrics.model_flops_per_s);
  metrics.memory_bytes = facts_.memory_bytes;
  metrics.peak_resident_bytes = peak_resident_bytes();
  return metrics;
}

bool Session::is_evaluation_due(std::int64_t steps_done) const {
  return steps_done == spec_.steps ||
         (spec_.eval_interval > 0 && steps_done % spec_.eval_interval == 0);
}

bool Session::look_at_state(StepMetrics& metrics, const Course& course) {
  if (is_evaluation_due(metrics.step)) {
    for (Observer* observer : observers_) observer->evaluating(metrics.step);
    const bool is_last = metrics.step == spec_.steps;
    const program::Feeds& feeds = executor_.bundle().at(op::ProgramKind::train).feeds;
    std::optional<StopLooks> looks;
    if (course.checkpoints != nullptr) looks.emplace(*course.checkpoints);
    metrics.evaluation =
        evaluate(executor_, source_,
                 {.batch_samples = feeds.micros * feeds.samples,
                  .batches = is_last ? std::nullopt : std::optional(spec_.eval_batches),
                  .compared = spec_.eval_batches},
                 [&] { return looks && looks->must_end(); });
    if (!metrics.evaluation) return false;
  }
  if (!is_sample_due(metrics.step, course)) return true;
  const auto sample = course.write_sample();
  metrics.sample = sample.value_or("");
  return sample.has_value();
}

void Session::stop_for_evaluation(const StepMetrics& metrics) const {
  throw UserError(
      ExitCode::numeric_stop,
      format("stopped after step {} of {}: the validation loss is {}; go on from an earlier "
             "checkpoint (--resume), with a lower optimizer.lr or optimizer.weight_decay",
             metrics.step, spec_.steps, metrics.evaluation->loss));
}

void Session::stop(const op::StepBlock& block, const op::ResultBlock& result) {
  executor_.drain();
  const std::string why = result.valid_count == 0
                              ? "no token of its batch has a label; look at the data"
                              : find_cause(block);
  throw UserError(ExitCode::numeric_stop,
                  format("stopped at step {} of {}, whose update was not applied (the weights are "
                         "those after step {}): {}",
                         block.step + 1, spec_.steps, block.step, why));
}

std::string Session::find_cause(const op::StepBlock& block) {
  const auto found = run::find_non_finite(executor_, op::ProgramKind::train, block, &feeder_);
  std::optional<std::string> text;
  if (world_ != nullptr)
    text = run::first_of_all(found, *world_);
  else if (found)
    text = found->text();
  if (!text)
    return "the fault did not come again when the step was repeated; test this machine's memory";
  return *text + "; try a lower optimizer.lr or a longer lr_schedule.warmup_steps";
}

TrainResult train(const TrainSpec& spec, const RunFacts& facts, run::Executor& executor,
                  const data::Source& source, std::span<Observer* const> observers,
                  comm::World* world, const Course& course) {
  Session session(spec, facts, executor, source, observers, world);
  if (course.first_step == 0) {
    session.init();
    if (course.after_init) course.after_init();
  }
  return session.train(course);
}

}  // namespace fourfold::train
