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
                              {"grad_norm", &Metrics::grad_norm},
                              {"lr", &Metrics::lr},
                              {"tokens_per_s", &Metrics::tokens_per_s},
                              {"step_time_s", &Metrics::step_time_s},
                              {"mfu", &Metrics::mfu},
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
  for (const Column& column : columns) {
    auto& points = metrics.*column.points;
    while (!points.empty() && points.back().x >= step) points.pop_back();
  }
}

void add_line(Metrics& metrics, const Json& line, std::int64_t step) {
  const auto x = static_cast<double>(step);
  if (step <= metrics.steps) forget_from(metrics, x);
  metrics.steps = step;
  for (const Column& column : columns) {
    const auto value = number(line, column.key);
    if (!value) continue;
    if (std::isfinite(*value))
      (metrics.*column.points).push_back({x, *value});
    else if (column.points == &Metrics::loss)
      ++metrics.not_finite;
  }
  const auto whole = [&](std::string_view key, std::int64_t& into) {
    const Json* value = line.find(key);
    if (value != nullptr && value->kind() == Json::Kind::integer)
      into = std::max(into, value->as_integer());
  };
  whole("memory_bytes", metrics.memory_bytes);
  whole("peak_resident_bytes", metrics.peak_resident_bytes);
}

/// The line's object and step; nothing for a line that is torn or has no step.
std::optional<std::pair<Json, std::int64_t>> parse_line(const std::string& text) {
  try {
    Json line = parse_json(text, "");
    const Json* step = line.find("step");
    if (step == nullptr || step->kind() != Json::Kind::integer || step->as_integer() < 1)
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
    if (i < metrics.tokens_per_s.size())
      metrics.tokens += metrics.step_time_s[i].y * metrics.tokens_per_s[i].y;
  }
  return metrics;
}

}  // namespace fourfold::report
