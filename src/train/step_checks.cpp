#include "train/step_checks.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::train {

StepChecks::StepChecks(const TrainSpec& spec, const RunFacts& facts, run::Executor& executor,
                       comm::World* world, std::span<Observer* const> observers)
    : spec_(spec),
      facts_(facts),
      executor_(executor),
      world_(world),
      observers_(observers),
      spikes_(spec.loss_spike) {
  if (world == nullptr || world->size() == 1) return;
  stragglers_.emplace(world->size());
  compute_s_.resize(Stragglers::interval_steps * world->size());
  if (spec.replica_check_steps > 0)
    replicas_.emplace(
        executor.bundle().at(op::ProgramKind::train),
        [&executor](const program::Buffer& buffer) { return executor.read(buffer); }, *world);
}

std::optional<std::string> StepChecks::after_step(StepMetrics& metrics,
                                                  const op::StepBlock& block) {
  if (stragglers_) compare_times(metrics);
  auto leap = look_at_loss(metrics, block);
  if (read_state_behind(metrics.step)) compare_replicas(metrics.step);
  return leap;
}

/// Compares the times of the ranks, once for every `interval_steps` steps: they need not meet after
/// each of them.
void StepChecks::compare_times(StepMetrics& metrics) {
  const std::size_t ranks = world_->size(), place = steps_ % Stragglers::interval_steps;
  const run::RunTimes times = executor_.times();
  compute_s_[place * ranks + world_->rank().index()] =
      times.total_s - times.exposed_communication_s - times.feed_wait_s;
  if (++steps_ % Stragglers::interval_steps != 0) return;
  world_->all_reduce(std::span(compute_s_), Reduction::sum);
  std::vector<double> mean(ranks, 0.0);
  for (std::size_t step = 0; step < Stragglers::interval_steps; ++step) {
    const auto of_step = std::span<const double>(compute_s_).subspan(step * ranks, ranks);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      mean[rank] += of_step[rank] / Stragglers::interval_steps;
    const auto text = stragglers_->look(of_step);
    if (text && !facts_.ranks_share_cores) warn(*text);
  }
  metrics.compute = Stragglers::summarize(mean);
  std::fill(compute_s_.begin(), compute_s_.end(), 0.0);
}

std::optional<std::string> StepChecks::look_at_loss(const StepMetrics& metrics,
                                                    const op::StepBlock& block) {
  const auto spike = spikes_.look(metrics.loss);
  if (!spike) return std::nullopt;
  const program::Feeds& feeds = executor_.bundle().at(op::ProgramKind::train).feeds;
  std::string text = format(
      "the loss of step {} is {:.4f}, above {:.4f} + {} x {:.4f}, the median and the deviation "
      "of the {} steps before; its samples are {} to {} of the run",
      metrics.step, metrics.loss, spike->median, spec_.loss_spike.sigmas, spike->sigma,
      spec_.loss_spike.window, block.first_sample,
      block.first_sample + feeds.micros * feeds.samples - 1);
  if (spec_.loss_spike.action == LossSpikeSpec::Action::warn) {
    warn(text);
    return text;
  }
  throw UserError(ExitCode::numeric_stop,
                  text +
                      "; nothing was saved since (loss_spike.action = stop): look at these "
                      "samples, then go on from the last checkpoint, with a lower optimizer.lr or "
                      "loss_spike.action = warn");
}

void StepChecks::compare_replicas(std::int64_t steps_done) {
  const auto difference = replicas_->find_difference();
  if (!difference) {
    last_equal_ = steps_done;
    return;
  }
  throw UserError(
      ExitCode::numeric_stop,
      format(
          "replicas differ after step {}: {}; {}; test that machine's memory and processor, and go "
          "on from a checkpoint before it (run.replica_check_steps = {})",
          steps_done, *difference,
          last_equal_ > 0 ? format("they were equal after step {}", last_equal_)
                          : std::string("this was the first comparison"),
          spec_.replica_check_steps));
}

void StepChecks::warn(const std::string& text) {
  for (Observer* observer : observers_) observer->warn(text);
}

}  // namespace fourfold::train
