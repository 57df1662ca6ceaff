#include "train/console.h"

#include <cmath>
#include <optional>
#include <string_view>

#include "base/format.h"
#include "base/styled_text.h"
#include "base/text.h"
#include "base/units.h"

namespace fourfold::train {
namespace {

/// Weight of the newest step in the ETA's average: about the last 20 steps count.
constexpr double newest_weight = 0.1;
/// Without an interval: what a person can follow, and a log can hold.
constexpr std::int64_t first_steps = 10;
constexpr double automatic_interval_s = 10;

}  // namespace

Console::Console(Screen& screen, const TrainSpec& spec, const RunFacts& facts)
    : screen_(screen),
      spec_(spec),
      facts_(facts),
      step_width_(static_cast<int>(format("{}", spec.steps).size())),
      status_(screen, spec.steps) {
  if (facts.best.lowest.empty()) return;
  best_val_loss_ = facts.best.lowest[0].loss;
  best_step_ = facts.best.lowest[0].step;
}

void Console::step(const StepMetrics& metrics) {
  ++steps_;
  time_s_ += metrics.time_s;
  items_ += metrics.items_per_s * metrics.time_s;
  flops_ += metrics.model_flops_per_s * metrics.time_s;
  exposed_s_ += metrics.exposed_communication_s.value_or(0);
  if (metrics.evaluation) evaluation_s_ += metrics.evaluation->time_s;
  average_step_s_ = metrics.step <= 2
                        ? metrics.time_s
                        : (1 - newest_weight) * average_step_s_ + newest_weight * metrics.time_s;
  if (is_due(metrics.step)) {
    doubt_peak();
    screen_.row(cells(metrics));
    steps_ = 0;
    time_s_ = evaluation_s_ = items_ = flops_ = exposed_s_ = 0;
  }
  if (metrics.evaluation) show_evaluation(metrics);
  if (!metrics.sample.empty())
    screen_.say(Level::info, format("sample after step {}:\n{}\n", metrics.step,
                                    without_controls(metrics.sample)));
  status_.step_done(metrics.step, average_step_s_);
}

void Console::doubt_peak() {
  const double flops_per_s = flops_ / time_s_;
  if (!facts_.peak_flops || facts_.utilization(flops_per_s) || doubts_peak_) return;
  doubts_peak_ = true;
  warn(format(
      "the steps compute {}, more than the {} that this machine was measured to reach: it was "
      "busy then; shares of a peak are left out, and the next start measures again",
      trim(flops_text(facts_.hardware_flops_per_s(flops_per_s))),
      trim(flops_text(*facts_.peak_flops))));
}

void Console::evaluating(std::int64_t) {
  status_.evaluating();
}

bool Console::is_due(std::int64_t step) const {
  if (step == 1 || step == spec_.steps) return true;
  if (spec_.log_interval) return step % *spec_.log_interval == 0;
  return step <= first_steps || time_s_ + evaluation_s_ >= automatic_interval_s;
}

std::vector<Cell> Console::cells(const StepMetrics& m) const {
  const double left_s = average_step_s_ * static_cast<double>(spec_.steps - m.step);
  const double flops_per_s = flops_ / time_s_;
  const std::optional<Utilization> shares = facts_.utilization(flops_per_s);
  const auto share_cell = [&](std::string_view name, std::optional<double> share) {
    return Cell{format("{}{} {}", name, facts_.peak_is_measured ? "*" : "",
                       share ? format("{:4.1f}%", 100 * *share) : "   - "),
                4};
  };
  std::vector<Cell> cells = {
      {format("step {:>{}}/{}", m.step, step_width_, spec_.steps), 10},
      {format("loss {:7.4f}", m.loss), 9},
      {format("gnorm {:5.2f}", m.grad_norm), 6},
      {format("lr {:.2e}", m.lr), 3},
      {format("{:>7}", format_duration(time_s_ / static_cast<double>(steps_))), 8},
      {format("{:>5} {}/s", format_count(items_ / time_s_), facts_.unit.brief), 7},
      {flops_text(flops_per_s), 2}};
  if (facts_.peak_flops)
    cells.push_back(share_cell("MFU", shares ? std::optional(shares->mfu) : std::nullopt));
  if (facts_.peak_flops && facts_.hardware_flops_per_step)
    cells.push_back(share_cell("HFU", shares ? shares->hfu : std::nullopt));
  if (m.exposed_communication_s)
    cells.push_back({format("exposed {:4.1f}%", 100 * exposed_s_ / time_s_), 1});
  cells.push_back({format("mem {:>8}", format_bytes(m.peak_resident_bytes)), 0});
  // As wide when it is over: the same cells fit.
  cells.push_back(
      {m.step < spec_.steps ? format("ETA {:<6}", format_duration(left_s)) : format("{:10}", ""),
       5});
  return cells;
}

void Console::show_evaluation(const StepMetrics& metrics) {
  const Evaluation& evaluation = *metrics.evaluation;
  const bool is_best = std::isfinite(evaluation.compared_loss) &&
                       (best_step_ == 0 || evaluation.compared_loss < best_val_loss_);
  if (is_best) {
    best_val_loss_ = evaluation.compared_loss;
    best_step_ = metrics.step;
  }
  const std::string loss = format("val loss {:.4f}{}{}", evaluation.loss,
                                  evaluation.is_larger() ? " of the whole split" : "",
                                  evaluation.is_of_averages ? " with averages" : "");
  std::vector<Cell> cells = {
      {format("eval {:>{}}/{}", metrics.step, step_width_, spec_.steps), 3},
      {is_best ? styled(Style::green, loss) : loss, 2},
      {best_step_ == 0 ? std::string("best none")
                       : format("best {:.4f} at step {}", best_val_loss_, best_step_),
       1},
      {format("{} {} in {}", format_grouped(evaluation.items), facts_.unit.plural,
              format_duration(evaluation.time_s)),
       0}};

  if (evaluation.accuracy)
    cells.insert(cells.begin() + 2, {format("right {:5.2f}%", 100 * *evaluation.accuracy), 3});
  screen_.row(cells);
}

void Console::end(const TrainResult&) {
  status_.stop();
}

void Console::warn(const std::string& text) {
  screen_.say(Level::warning, text);
}

}  // namespace fourfold::train
