#include "train/console.h"

#include <cctype>

#include "base/format.h"
#include "base/units.h"

namespace fourfold::train {
namespace {

/// Weight of the newest step in the ETA's average: about the last 20 steps count.
constexpr double newest_weight = 0.1;

/// "71.0 GFLOP/s": the SI prefix belongs to the unit.
std::string flops_text(double flops_per_s) {
  std::string number = format_count(flops_per_s);
  std::string prefix;
  if (!number.empty() && std::isalpha(static_cast<unsigned char>(number.back())) != 0) {
    prefix = number.back();
    number.pop_back();
  }
  return format("{:>4} {}FLOP/s", number, prefix);
}

}  // namespace

Console::Console(std::ostream& out, const TrainSpec& spec)
    : out_(out), spec_(spec), step_width_(static_cast<int>(format("{}", spec.steps).size())) {}

void Console::step(const StepMetrics& metrics) {
  ++steps_;
  time_s_ += metrics.time_s;
  tokens_ += metrics.tokens_per_s * metrics.time_s;
  flops_ += metrics.model_flops_per_s * metrics.time_s;
  average_step_s_ = metrics.step <= 2
                        ? metrics.time_s
                        : (1 - newest_weight) * average_step_s_ + newest_weight * metrics.time_s;
  if (metrics.step == 1 || (spec_.log_interval > 0 && metrics.step % spec_.log_interval == 0) ||
      metrics.step == spec_.steps) {
    print(step_line(metrics));
    steps_ = 0;
    time_s_ = tokens_ = flops_ = 0;
  }
  if (!metrics.evaluation) return;
  const Evaluation& evaluation = *metrics.evaluation;
  if (best_step_ == 0 || evaluation.loss < best_val_loss_) {
    best_val_loss_ = evaluation.loss;
    best_step_ = metrics.step;
  }
  print(format("eval {:>{}}/{} | val loss {:.4f} | best {:.4f} at step {} | {} tokens in {}",
               metrics.step, step_width_, spec_.steps, evaluation.loss, best_val_loss_, best_step_,
               format_grouped(evaluation.tokens), format_duration(evaluation.time_s)));
}

std::string Console::step_line(const StepMetrics& metrics) const {
  const double left_s = average_step_s_ * static_cast<double>(spec_.steps - metrics.step);
  std::string line =
      format("step {:>{}}/{} | loss {:7.4f} | gnorm {:5.2f} | lr {:.2e} | {:>7} | {:>5} tok/s | {}",
             metrics.step, step_width_, spec_.steps, metrics.loss, metrics.grad_norm, metrics.lr,
             format_duration(time_s_ / static_cast<double>(steps_)),
             format_count(tokens_ / time_s_), flops_text(flops_ / time_s_));
  // Of the interval, as the rates before it.
  if (metrics.mfu)
    line += format(" (MFU {:.1f}%)",
                   100 * *metrics.mfu * (flops_ / time_s_) / metrics.model_flops_per_s);
  if (metrics.step < spec_.steps) line += " | ETA " + format_duration(left_s);
  return line;
}

void Console::end(const TrainResult& result) {
  print(format("done: {} steps in {}, {} tok/s; evaluation took {}", result.steps,
               format_duration(result.time_s), format_count(result.tokens_per_s),
               format_duration(result.evaluation_time_s)));
  if (result.last_evaluation)
    print(format("loss: validation {:.4f} (best {:.4f} at step {}), training {:.4f}",
                 result.last_evaluation->loss, result.best_val_loss, result.best_step,
                 result.loss));
  print(format("run directory: {}", spec_.run_dir));
}

void Console::warn(std::string_view text) {
  print(format("warning: {}", text));
}

/// Flushed line by line: whoever follows a job's log sees each step when it is done.
void Console::print(const std::string& line) {
  out_ << line << '\n' << std::flush;
}

}  // namespace fourfold::train
