#include "train/session.h"

#include <chrono>

#include "base/error.h"
#include "base/format.h"
#include "run/find_non_finite.h"
#include "train/evaluate.h"
#include "train/feeders.h"
#include "train/schedule.h"

namespace fourfold::train {
namespace {

/// Sums over the steps of a run, for its result.
class Totals {
 public:
  void add(const StepMetrics& metrics) {
    result_.steps = metrics.step;
    result_.loss = metrics.loss;
    result_.time_s += metrics.time_s;
    if (metrics.step == 1) first_time_s_ = metrics.time_s;
    if (!metrics.evaluation) return;
    const Evaluation& evaluation = *metrics.evaluation;
    result_.evaluation_time_s += evaluation.time_s;
    if (!result_.last_evaluation || evaluation.loss < result_.best_val_loss) {
      result_.best_val_loss = evaluation.loss;
      result_.best_step = metrics.step;
    }
    result_.last_evaluation = evaluation;
  }

  TrainResult result(std::int64_t tokens_per_step) const {
    TrainResult result = result_;
    const bool only_step = result.steps == 1;
    const double time_s = only_step ? result.time_s : result.time_s - first_time_s_;
    const std::int64_t steps = only_step ? 1 : result.steps - 1;
    if (time_s > 0) result.tokens_per_s = static_cast<double>(steps * tokens_per_step) / time_s;
    return result;
  }

 private:
  TrainResult result_;
  double first_time_s_ = 0;
};

}  // namespace

Session::Session(const TrainSpec& spec, const RunFacts& facts, run::Executor& executor,
                 const data::Dataset& dataset, std::span<Observer* const> observers)
    : spec_(spec), facts_(facts), executor_(executor), dataset_(dataset), observers_(observers) {}

void Session::init() {
  executor_.run("init", {.seed = spec_.seed});
}

TrainResult Session::train() {
  Totals totals;
  for (std::int64_t step = 0; step < spec_.steps; ++step) {
    StepMetrics metrics = do_step(step);
    metrics.evaluation = evaluate_when_due(step + 1);
    totals.add(metrics);
    for (Observer* observer : observers_) observer->step(metrics);
  }
  const TrainResult result = totals.result(facts_.tokens_per_step);
  for (Observer* observer : observers_) observer->end(result);
  return result;
}

StepMetrics Session::do_step(std::int64_t step) {
  const program::Feeds& feeds = executor_.bundle().at("train").feeds;
  const op::StepBlock block{.step = step,
                            .seed = spec_.seed,
                            .lr = learning_rate(spec_.schedule, spec_.steps, step),
                            .first_sample = step * feeds.micros * feeds.samples};
  TrainFeeder feeder(dataset_);
  const auto begin = std::chrono::steady_clock::now();
  const op::ResultBlock result = executor_.run("train", block, &feeder);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (result.applied == 0) stop(block, result, feeder);

  StepMetrics metrics;
  metrics.step = step + 1;
  metrics.loss = result.loss_sum / static_cast<double>(result.token_count);
  metrics.lr = block.lr;
  metrics.grad_norm = result.grad_norm;
  metrics.time_s = elapsed.count();
  metrics.tokens_per_s = static_cast<double>(facts_.tokens_per_step) / metrics.time_s;
  metrics.model_flops_per_s = facts_.model_flops_per_step / metrics.time_s;
  if (facts_.peak_flops) metrics.mfu = metrics.model_flops_per_s / *facts_.peak_flops;
  metrics.memory_bytes = facts_.memory_bytes;
  return metrics;
}

std::optional<Evaluation> Session::evaluate_when_due(std::int64_t steps_done) {
  if (steps_done == spec_.steps) return evaluate(executor_, dataset_, std::nullopt);
  if (spec_.eval_interval > 0 && steps_done % spec_.eval_interval == 0)
    return evaluate(executor_, dataset_, spec_.eval_batches);
  return std::nullopt;
}

void Session::stop(const op::StepBlock& block, const op::ResultBlock& result, run::Feeder& feeder) {
  std::string why =
      "the fault did not come again when the step was repeated; test this machine's memory";
  if (result.token_count == 0) {
    why = "no token of its batch has a label; look at the data";
  } else if (const auto found = run::find_non_finite(executor_, "train", block, &feeder)) {
    why = found->text() + "; try a lower optimizer.lr or a longer lr_schedule.warmup_steps";
  }
  throw UserError(ExitCode::numeric_stop, format("stopped at step {} of {}, whose update was not "
                                                 "applied (the weights are those after step "
                                                 "{}): {}",
                                                 block.step + 1, spec_.steps, block.step, why));
}

TrainResult train(const TrainSpec& spec, const RunFacts& facts, run::Executor& executor,
                  const data::Dataset& dataset, std::span<Observer* const> observers) {
  Session session(spec, facts, executor, dataset, observers);
  session.init();
  return session.train();
}

}  // namespace fourfold::train
