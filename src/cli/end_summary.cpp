#include "cli/end_summary.h"

#include <algorithm>

#include "base/flops_text.h"
#include "base/format.h"
#include "base/styled_text.h"
#include "base/text.h"
#include "base/units.h"

namespace fourfold::cli {
namespace {

constexpr int usual_columns = 80, curve_rows = 16;
/// Fewer are read faster than drawn.
constexpr std::size_t least_points = 8;

struct Entry {
  std::string label, text;
};

/// The entries in a frame with a title.
std::string box(std::string_view title, const std::vector<Entry>& entries, bool is_unicode) {
  std::size_t label_width = 0, text_width = 0;
  for (const Entry& entry : entries) {
    label_width = std::max(label_width, columns_of(entry.label));
    text_width = std::max(text_width, columns_of(entry.text));
  }
  const std::size_t inner = label_width + 2 + text_width;
  const auto line = [&](std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += is_unicode ? "─" : "-";
    return text;
  };
  const std::string side = is_unicode ? "│" : "|";
  std::string text = format("{} {} {}{}\n", is_unicode ? "┌" : "+", styled(Style::bold, title),
                            line(inner - columns_of(title)), is_unicode ? "┐" : "+");
  for (const Entry& entry : entries)
    text += format("{} {:<{}}  {:<{}} {}\n", side, entry.label, label_width, entry.text, text_width,
                   side);
  return text + format("{}{}{}", is_unicode ? "└" : "+", line(inner + 2), is_unicode ? "┘" : "+");
}

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

std::string EndSummary::figures(bool is_unicode) const {
  const double flops_per_s = facts_.model_flops_per_step * result_.tokens_per_s /
                             static_cast<double>(facts_.tokens_per_step);
  std::string rate =
      format("{} tok/s, {}", format_count(result_.tokens_per_s), trim(flops_text(flops_per_s)));
  if (facts_.peak_flops)
    rate += format(", MFU{} {:.1f}%", facts_.peak_is_measured ? "*" : "",
                   100 * flops_per_s / *facts_.peak_flops);
  std::vector<Entry> entries = {
      {"steps", format("{}, {} tokens", format_grouped(result_.steps),
                       format_grouped(result_.steps * facts_.tokens_per_step))},
      {"time", format("{}, and {} for evaluation", format_duration(result_.time_s),
                      format_duration(result_.evaluation_time_s))},
      {"rate", rate + (result_.steps > 1 ? " without the first step" : "")},
      {"training loss", format("{:.4f}", result_.loss)}};
  if (result_.last_evaluation)
    entries.push_back(
        {"validation loss", format("{:.4f}, best {:.4f} at step {}", result_.last_evaluation->loss,
                                   result_.best_val_loss, format_grouped(result_.best_step))});
  if (has_ranks_)
    entries.push_back({"communication",
                       format("{:.1f}% of the steps exposed", 100 * exposed_s_ / result_.time_s)});
  entries.push_back(
      {"memory", format("{} planned a rank, {} resident at most", format_bytes(facts_.memory_bytes),
                        format_bytes(peak_resident_bytes_))});
  return box("done", entries, is_unicode);
}

std::string EndSummary::text(int columns, bool is_unicode) const {
  std::string text = figures(is_unicode);
  const std::vector<report::Point> losses = losses_.points();
  if (losses.size() < least_points) return text;
  const int width = columns == 0 ? usual_columns : std::min(columns, usual_columns);
  const std::string curve =
      report::draw_curve(losses, evaluations_, {width, curve_rows, is_unicode});
  if (curve.empty()) return text;
  return text + format("\n\nloss by step, evaluations as {}\n", is_unicode ? "●" : "o") +
         curve.substr(0, curve.size() - 1);
}

}  // namespace fourfold::cli
