#include "training_run/predicted_run.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "job/open_grid.h"
#include "machine/cluster.h"
#include "run/describe.h"
#include "simulate/prediction.h"
#include "simulate/simulate.h"
#include "trace/summary.h"

namespace fourfold::training_run {
namespace {

/// The kinds of work that a line has room for.
constexpr std::size_t most_kinds_said = 3;
/// So many times of steps are kept at most, and half as many at least.
constexpr std::size_t most_sampled = 4096;

constexpr const char* exposed_name = "exposed communication";
constexpr const char* rest_name = "all else";

/// In which the math stream of the first rank that was followed stands still for exchanges.
double exposed_of_first(const trace::Timeline& timeline) {
  const trace::Timeline first{timeline.program, {timeline.ranks.front()}};
  double exposed_s = 0;
  for (const trace::Traffic& traffic : trace::summarize(first, "the simulation").traffic)
    exposed_s += traffic.exposed_s;
  return exposed_s;
}

/// With as many decimals for all that is said of one step.
std::string milliseconds(double seconds, double step_s) {
  return format("{:.{}f}", 1e3 * seconds, step_s < 10e-3 ? 3 : step_s < 1 ? 2 : 1);
}

/// Steps of tests are shorter than what format_duration is made for.
std::string step_text(double seconds) {
  return seconds < 10e-3 ? milliseconds(seconds, seconds) + " ms" : format_duration(seconds);
}

std::string error_text(const trace::Beside& step) {
  const double error = step.measured_s > 0 ? step.predicted_s / step.measured_s - 1 : 0;
  if (std::abs(error) < 0.005) return "as";
  return format("{:.0f}% {} than", 100 * std::abs(error), error < 0 ? "less" : "more");
}

std::string kinds_text(const StepBeside& beside) {
  std::string text;
  const std::vector<trace::Beside> kinds = trace::furthest_off(beside.kinds, most_kinds_said);
  const double step_s = std::max(beside.step.predicted_s, beside.step.measured_s);
  for (const trace::Beside& kind : kinds)
    text += format("{}{} {} for {} ms", text.empty() ? "" : ", ", kind.what,
                   milliseconds(kind.predicted_s, step_s), milliseconds(kind.measured_s, step_s));
  return text;
}

Json json_of(const std::vector<trace::Beside>& rows) {
  Json list = Json::array();
  for (const trace::Beside& row : rows) list.push(trace::to_json(row));
  return list;
}

}  // namespace

std::optional<PredictedStep> predict_step(const job::Job& job, screen::Log& log) {
  if (!job::names_machine(job.settled.config())) return std::nullopt;
  const machine::Cluster cluster =
      job::machine_of(job.settled.config(), {.ranks = job.ranks(), .of_host = job.ranks()}).cluster;
  try {
    const simulate::Simulation simulation =
        simulate::simulate(job.programs, op::ProgramKind::train, cluster);
    PredictedStep step{cluster.name, simulation.step_s, 0, {}};
    step.by_analogy = simulate::priced_by_analogy(job.programs, simulation, cluster);
    step.timeline =
        simulate::to_timeline(job.programs, simulation, run::describe_rank,
                              [&](Rank rank) { return simulate::host_text(cluster, rank); });
    step.exposed_s = exposed_of_first(step.timeline);
    return step;
  } catch (const UserError& error) {
    log.warn(format("run.machine: no time of a step is predicted: {}", error.what()));
    return std::nullopt;
  }
}

Rows to_rows(const StepBeside& beside) {
  const trace::Beside& step = beside.step;
  const std::string steps = beside.num_steps == 1
                                ? "of one step"
                                : format("the median of {}", format_grouped(beside.num_steps));
  Rows rows = {
      {"predicted", format("{}{} a step on {}, {} the {} measured, {}",
                           simulate::analogy_mark(beside.by_analogy), step_text(step.predicted_s),
                           beside.machine, error_text(step), step_text(step.measured_s), steps)}};
  if (beside.num_traced > 0)
    rows.push_back({"furthest off", format("predicted for measured: {}", kinds_text(beside))});
  else if (!beside.kinds.empty())
    rows.push_back({"furthest off", format("predicted for measured: {}; --trace N tells of each "
                                           "kind of work",
                                           kinds_text(beside))});
  else
    rows.push_back({"furthest off", "--trace N tells which work"});
  if (!beside.by_analogy.empty())
    rows.push_back({"by analogy", simulate::analogy_text(beside.by_analogy)});
  return rows;
}

Json to_json(const StepBeside& beside) {
  return Json::object({{"version", 1},
                       {"machine", beside.machine},
                       {"last_step", beside.last_step},
                       {"steps", beside.num_steps},
                       {"traced_steps", beside.num_traced},
                       {"step", trace::to_json(beside.step)},
                       {"kinds", json_of(beside.kinds)},
                       {"worst", json_of(beside.worst)},
                       {"by_analogy", simulate::analogy_json(beside.by_analogy)}});
}

void StepsBeside::Sample::add(double value) {
  if (values_.empty()) values_.reserve(most_sampled);
  if (count_++ % stride_ != 0) return;
  values_.push_back(value);
  if (values_.size() < most_sampled) return;
  for (std::size_t i = 0; 2 * i < values_.size(); ++i) values_[i] = values_[2 * i];
  values_.resize(values_.size() / 2);
  stride_ *= 2;
}

double StepsBeside::Sample::median() const {
  std::vector<double> values = values_;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

void StepsBeside::step(const train::StepMetrics& metrics) {
  last_step_ = metrics.step;
  has_ranks_ = metrics.exposed_communication_s.has_value();
  const double exposed_s = metrics.exposed_communication_s.value_or(0);
  if (!first_s_) {  // it also brings memory and caches in
    first_s_ = metrics.time_s;
    first_exposed_s_ = exposed_s;
    return;
  }
  ++num_steps_;
  times_s_.add(metrics.time_s);
  exposed_s_.add(exposed_s);
}

void StepsBeside::add_timeline(const trace::Timeline& measured) {
  traced_ = trace::compare(predicted_.timeline, "the simulation", measured, "the run");
  num_traced_ = static_cast<std::int64_t>(measured.ranks.front().steps.size());
}

std::optional<StepBeside> StepsBeside::result() const {
  if (!first_s_) return std::nullopt;
  const bool is_first_alone = num_steps_ == 0;
  const double time_s = is_first_alone ? *first_s_ : times_s_.median();
  StepBeside beside{predicted_.machine,
                    {"step", predicted_.step_s, time_s},
                    is_first_alone ? 1 : num_steps_,
                    last_step_,
                    num_traced_,
                    {},
                    {},
                    predicted_.by_analogy};
  if (traced_) {
    beside.kinds = traced_->kinds;
    beside.worst = traced_->worst;
  } else if (has_ranks_) {
    const double exposed_s = is_first_alone ? *first_exposed_s_ : exposed_s_.median();
    beside.kinds = {{exposed_name, predicted_.exposed_s, exposed_s},
                    {rest_name, predicted_.step_s - predicted_.exposed_s, time_s - exposed_s}};
  }
  return beside;
}

}  // namespace fourfold::training_run
