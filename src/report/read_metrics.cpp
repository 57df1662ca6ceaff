#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "report/run_data.h"

namespace fourfold::report {
namespace {

struct Column {
  std::string_view key;
  std::vector<Point> Metrics::* points;
};
constexpr Column columns[] = {{"loss", &Metrics::loss},
                              {"val_loss", &Metrics::val_loss},
                              {"val_accuracy", &Metrics::val_accuracy},
                              {"grad_norm", &Metrics::grad_norm},
                              {"lr", &Metrics::lr},
                              {"step_time_s", &Metrics::step_time_s},
                              {"mfu", &Metrics::mfu},
                              {"hfu", &Metrics::hfu},
                              {"exposed_communication_s", &Metrics::exposed_communication_s}};

/// NaN for null, which stands for what is not finite; nothing where the key is missing.
std::optional<double> number(const Json& line, std::string_view key) {
  const Json* value = line.find(key);
  if (value == nullptr) return std::nullopt;
  const bool is_number =
      value->kind() == Json::Kind::integer || value->kind() == Json::Kind::number;
  return is_number ? value->as_double() : std::numeric_limits<double>::quiet_NaN();
}

/// A run that went on from an earlier step has done some steps again.
void forget_from(Metrics& metrics, double step) {
  const auto forget = [step](std::vector<Point>& points) {
    while (!points.empty() && points.back().x >= step) points.pop_back();
  };
  for (const Column& column : columns) forget(metrics.*column.points);
  forget(metrics.items_per_s);
  if (metrics.val_loss_of_all && metrics.val_loss_of_all->x >= step)
    metrics.val_loss_of_all = std::nullopt;
  while (!metrics.samples.empty() && static_cast<double>(metrics.samples.back().step) >= step)
    metrics.samples.pop_back();
}

/// The rate is named after what it counts: "tokens_per_s".
void add_rate(Metrics& metrics, const Json& line, double step) {
  constexpr std::string_view ending = "_per_s";
  for (const auto& [key, value] : line.members()) {
    if (!key.ends_with(ending)) continue;
    const std::string unit = key.substr(0, key.size() - ending.size());
    const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
    if (unit.empty() || !std::all_of(unit.begin(), unit.end(), is_letter)) continue;
    metrics.unit = unit;
    const auto rate = number(line, key);
    if (rate && std::isfinite(*rate)) metrics.items_per_s.push_back({step, *rate});
    return;
  }
}

/// An evaluation of more batches than the others take is compared with them by theirs.
void compare_evaluation(Metrics& metrics, const Json& line, double step) {
  const auto compared = number(line, "val_loss_compared");
  if (!compared || !std::isfinite(*compared) || metrics.val_loss.empty() ||
      metrics.val_loss.back().x != step)
    return;
  metrics.val_loss_of_all = std::exchange(metrics.val_loss.back(), {step, *compared});
}

void add_line(Metrics& metrics, const Json& line, std::int64_t step) {
  const auto x = static_cast<double>(step);
  if (step <= metrics.steps) forget_from(metrics, x);
  metrics.steps = step;
  for (const Column& column : columns) {
    const auto value = number(line, column.key);
    if (!value) continue;
    // A share above 1 is of a peak that was measured too low.
    const bool is_share = column.points == &Metrics::mfu || column.points == &Metrics::hfu;
    if (is_share && *value > 1) continue;
    if (std::isfinite(*value))
      (metrics.*column.points).push_back({x, *value});
    else if (column.points == &Metrics::loss || column.points == &Metrics::val_loss)
      ++metrics.not_finite;
  }
  compare_evaluation(metrics, line, x);
  if (line.find("val_loss") != nullptr) {
    const Json* weights = line.find("val_weights");
    metrics.val_is_of_averages = weights != nullptr && weights->kind() == Json::Kind::string &&
                                 weights->as_string() == "averages";
  }
  add_rate(metrics, line, x);
  const Json* sample = line.find("sample");
  if (sample != nullptr && sample->kind() == Json::Kind::string)
    metrics.samples.push_back({step, sample->as_string()});
  const auto whole = [&](std::string_view key, std::int64_t& into) {
    const Json* value = line.find(key);
    if (value != nullptr && value->kind() == Json::Kind::integer)
      into = std::max(into, value->as_integer());
  };
  whole("memory_bytes", metrics.memory_bytes);
  whole("peak_resident_bytes", metrics.peak_resident_bytes);
}

/// From how long steps took and how many items a second they read.
std::vector<Point> items_read(const Metrics& metrics) {
  std::vector<Point> read;
  double per_step = 0;
  auto rate = metrics.items_per_s.begin();
  for (const Point& time : metrics.step_time_s) {
    while (rate != metrics.items_per_s.end() && rate->x < time.x) ++rate;
    if (rate == metrics.items_per_s.end() || rate->x > time.x) continue;
    const double now = std::round(time.y * rate->y);
    if (read.empty()) read.push_back({0, 0});
    const Point last = read.back();
    // A longer straight line in place of two.
    if (now == per_step) read.pop_back();
    per_step = now;
    read.push_back({time.x, last.y + (time.x - last.x) * now});
  }
  return read;
}

/// The mean over time, as the throughput beside which it stands.
std::optional<double> mean_share(const Metrics& metrics, const std::vector<Point>& shares) {
  double time_s = 0, sum = 0;
  auto time = metrics.step_time_s.begin();
  for (const Point& share : shares) {
    while (time != metrics.step_time_s.end() && time->x < share.x) ++time;
    if (time == metrics.step_time_s.end() || time->x > share.x) continue;
    time_s += time->y;
    sum += time->y * share.y;
  }
  return time_s > 0 ? std::optional(sum / time_s) : std::nullopt;
}

/// Steps are counted in 32 bits, as random numbers are.
constexpr std::int64_t most_steps = std::numeric_limits<std::uint32_t>::max();

/// The line's object and step; nothing for a line that is torn or has no step.
std::optional<std::pair<Json, std::int64_t>> parse_line(const std::string& text) {
  try {
    Json line = parse_json(text, "");
    const Json* step = line.find("step");
    if (step == nullptr || step->kind() != Json::Kind::integer || step->as_integer() < 1 ||
        step->as_integer() > most_steps)
      return std::nullopt;
    const std::int64_t number = step->as_integer();
    return std::pair{std::move(line), number};
  } catch (const UserError&) {
    return std::nullopt;
  }
}

}  // namespace

Metrics read_metrics(const std::string& path) {
  Metrics metrics;
  std::ifstream file(path);
  if (!file) metrics.fault = "there is no metrics.jsonl that can be read";
  for (std::string text; std::getline(file, text);) {
    if (text.empty()) continue;
    if (const auto line = parse_line(text))
      add_line(metrics, line->first, line->second);
    else
      ++metrics.unread_lines;
  }
  if (metrics.fault.empty() && metrics.steps == 0) metrics.fault = "metrics.jsonl holds no step";
  for (std::size_t i = 0; i < metrics.step_time_s.size(); ++i) {
    metrics.time_s += metrics.step_time_s[i].y;
    if (i < metrics.items_per_s.size())
      metrics.items += metrics.step_time_s[i].y * metrics.items_per_s[i].y;
  }
  metrics.items_read = items_read(metrics);
  metrics.mean_mfu = mean_share(metrics, metrics.mfu);
  metrics.mean_hfu = mean_share(metrics, metrics.hfu);
  return metrics;
}

}  // namespace fourfold::report
