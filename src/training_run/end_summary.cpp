#include "training_run/end_summary.h"

#include <algorithm>

#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "screen/rows.h"

namespace fourfold::training_run {
namespace {

constexpr int usual_columns = 80, curve_rows = 16;
/// Fewer are read faster than drawn.
constexpr std::size_t least_points = 8;

}  // namespace

void EndSummary::step(const train::StepMetrics& metrics) {
  const auto step = static_cast<double>(metrics.step);
  losses_.add({step, metrics.loss});
  if (metrics.evaluation) evaluations_.push_back({step, metrics.evaluation->loss});
  peak_resident_bytes_ = metrics.peak_resident_bytes;
  has_ranks_ = metrics.exposed_communication_s.has_value();
  exposed_s_ += metrics.exposed_communication_s.value_or(0);
}

void EndSummary::end(const train::TrainResult& result) {
  result_ = result;
}

double EndSummary::flops_per_s() const {
  return facts_.model_flops_per_step * result_.items_per_s /
         static_cast<double>(facts_.items_per_step);
}

bool EndSummary::exceeds_peak() const {
  return facts_.peak_flops && !facts_.utilization(flops_per_s());
}

std::string EndSummary::figures(int columns, bool is_unicode, const Rows& more) const {
  const double flops_per_s = this->flops_per_s();
  std::string rate = format("{} {}/s, {}", format_count(result_.items_per_s), facts_.unit.brief,
                            trim(flops_text(flops_per_s)));
  const char* const star = facts_.peak_is_measured ? "*" : "";
  if (const auto shares = facts_.utilization(flops_per_s)) {
    rate += format(", MFU{} {:.1f}%", star, 100 * shares->mfu);
    if (shares->hfu) rate += format(", HFU{} {:.1f}%", star, 100 * *shares->hfu);
  }
  Rows entries = {
      {"steps", format("{}, {} {}", format_grouped(result_.steps),
                       format_grouped(result_.steps * facts_.items_per_step), facts_.unit.plural)},
      {"time",
       format_duration(result_.time_s) +
           (result_.evaluation_time_s > 0
                ? format(", and {} for evaluation", format_duration(result_.evaluation_time_s))
                : "")},
      {"rate", rate + (result_.steps > 1 ? " without step 1" : "")},
      {"training loss", format("{:.4f}", result_.loss)}};
  if (result_.last_evaluation)
    entries.push_back({"validation loss",
                       format("{:.4f}{}{}, best {:.4f} at step {}", result_.last_evaluation->loss,
                              result_.last_evaluation->is_larger() ? " of the whole split" : "",
                              result_.last_evaluation->is_of_averages ? " with averages" : "",
                              result_.best_val_loss, format_grouped(result_.best_step))});
  if (result_.last_evaluation && result_.last_evaluation->accuracy)
    entries.push_back(
        {"accuracy",
         format("{:.2f}% of {} {} to validate", 100 * *result_.last_evaluation->accuracy,
                format_grouped(result_.last_evaluation->items), facts_.unit.plural)});
  if (has_ranks_)
    entries.push_back({"communication",
                       format("{:.1f}% of the steps exposed{}{}", 100 * exposed_s_ / result_.time_s,
                              cores_.empty() ? "" : "; ", cores_)});
  entries.push_back(
      {"memory", format("{} planned a rank, {} resident at most", format_bytes(facts_.memory_bytes),
                        format_bytes(peak_resident_bytes_))});
  entries.insert(entries.end(), more.begin(), more.end());
  return screen::box("done", entries, columns, is_unicode);
}

std::string EndSummary::text(int columns, bool is_unicode, const Rows& more) const {
  const int width = columns == 0 ? usual_columns : std::min(columns, usual_columns);
  std::string text = figures(width, is_unicode, more);
  const std::vector<report::Point> losses = losses_.points();
  if (losses.size() < least_points) return text;
  const std::string curve =
      report::draw_curve(losses, evaluations_, {width, curve_rows, is_unicode});
  if (curve.empty()) return text;
  return text + format("\n\nloss by step, evaluations as {}\n", is_unicode ? "●" : "o") +
         curve.substr(0, curve.size() - 1);
}

}  // namespace fourfold::training_run
