#include "train/step_figures.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/format.h"
#include "base/units.h"

namespace fourfold::train {
namespace {

std::string milliseconds(double seconds) {
  return format("{:.4g}", 1e3 * seconds);
}

}  // namespace

StepFigures figures_of(const std::vector<StepMetrics>& steps, const RunFacts& facts) {
  StepFigures figures;
  figures.unit = facts.unit;
  for (const StepMetrics& step : steps) figures.step_s.push_back(step.time_s);
  std::vector<double> last(figures.step_s.end() - counted_batches, figures.step_s.end());
  figures.mean_s = std::accumulate(last.begin(), last.end(), 0.) / counted_batches;
  std::ranges::sort(last);
  figures.median_s = last[counted_batches / 2];
  figures.least_s = last.front();
  figures.most_s = last.back();
  figures.items_per_s = static_cast<double>(facts.items_per_step) / figures.mean_s;
  figures.flops_per_s = facts.model_flops_per_step / figures.mean_s;
  if (steps.back().exposed_communication_s) {
    double sum = 0;
    for (auto step = steps.end() - counted_batches; step != steps.end(); ++step)
      sum += step->exposed_communication_s.value_or(0);
    figures.exposed_s = sum / counted_batches;
  }
  figures.peak_resident_bytes = steps.back().peak_resident_bytes;
  return figures;
}

Rows to_rows(const StepFigures& figures) {
  std::string all;
  for (const double seconds : figures.step_s) all += " " + milliseconds(seconds);
  Rows rows;
  rows.push_back({"batches", format("{} in turn, ms:{}", bench_batches, all)});
  rows.push_back(
      {"time", format("{} ms a step, the mean of the last {} (median {}, {} to {})",
                      milliseconds(figures.mean_s), counted_batches, milliseconds(figures.median_s),
                      milliseconds(figures.least_s), milliseconds(figures.most_s))});
  if (figures.exposed_s)
    rows.push_back({"exposed", format("{} ms of it the first rank waits for others, {:.1f}%",
                                      milliseconds(*figures.exposed_s),
                                      100 * *figures.exposed_s / figures.mean_s)});
  std::string rate =
      format("{} {}/s, {}", format_grouped(static_cast<std::int64_t>(figures.items_per_s)),
             figures.unit.plural, flops_text(figures.flops_per_s));
  if (figures.peak_flops_per_s)
    rate += format(", {:.1f}% of {} that products reach here",
                   100 * figures.flops_per_s / *figures.peak_flops_per_s,
                   flops_text(*figures.peak_flops_per_s));
  rows.push_back({"rate", rate});
  if (figures.instruction_s)
    rows.push_back(
        {"fixed",
         format("an instruction without work takes {:.2f} us: the {} of a rank {} ms",
                1e6 * *figures.instruction_s, figures.instructions,
                milliseconds(*figures.instruction_s * static_cast<double>(figures.instructions)))});
  rows.push_back({"resident", format_bytes(figures.peak_resident_bytes) + " at most"});
  return rows;
}

Json to_json(const StepFigures& figures) {
  Json all = Json::array();
  for (const double seconds : figures.step_s) all.push(seconds);
  Json json = Json::object()
                  .set("ranks", figures.ranks)
                  .set("threads", figures.threads)
                  .set("batches_s", all)
                  .set("step_s", figures.mean_s)
                  .set("median_s", figures.median_s)
                  .set("least_s", figures.least_s)
                  .set("most_s", figures.most_s)
                  .set("items_per_s", figures.items_per_s)
                  .set("model_flops_per_s", figures.flops_per_s)
                  .set("instructions", static_cast<std::int64_t>(figures.instructions))
                  .set("peak_resident_bytes", figures.peak_resident_bytes);
  if (figures.exposed_s) json.set("exposed_s", *figures.exposed_s);
  if (figures.peak_flops_per_s) json.set("peak_flops_per_s", *figures.peak_flops_per_s);
  if (figures.instruction_s) json.set("instruction_s", *figures.instruction_s);
  return json;
}

}  // namespace fourfold::train
