#include "pipeline/draw.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/format.h"

namespace fourfold::pipeline {
namespace {

bool has_one_stage(const Order& order) {
  return std::ranges::all_of(order, [&](const Task& task) { return task.stage == order[0].stage; });
}

std::string label_of(const Task& task, bool with_stage) {
  if (!with_stage) return format("{}{}", letter_of(task.kind), task.micro);
  return format("{}{}.{}", letter_of(task.kind), task.stage, task.micro);
}

/// How long a column is, in seconds: labels fit and are followed by one dash at least, if the
/// columns are enough.
double column_s(const std::vector<Order>& orders, const Timing& timing, bool with_stage,
                std::size_t most_columns) {
  std::optional<double> narrow;
  for (std::size_t mesh = 0; mesh < orders.size(); ++mesh)
    for (std::size_t place = 0; place < orders[mesh].size(); ++place) {
      const Interval& time = timing.tasks[mesh][place];
      if (time.end_s <= time.begin_s) continue;
      const std::size_t letters = label_of(orders[mesh][place], with_stage).size() + 1;
      const double for_it = (time.end_s - time.begin_s) / static_cast<double>(letters);
      narrow = std::min(narrow.value_or(for_it), for_it);
    }
  return std::max(narrow.value_or(1), timing.makespan_s / static_cast<double>(most_columns));
}

}  // namespace

std::string to_text(const std::vector<Order>& orders, const Timing& timing,
                    std::size_t most_columns, std::string_view row_word) {
  const bool with_stage = !std::ranges::all_of(orders, has_one_stage);
  const double column = column_s(orders, timing, with_stage, most_columns);
  const auto column_of = [&](double time_s) {
    return static_cast<std::size_t>(std::lround(time_s / column));
  };
  std::string text;
  for (std::size_t mesh = 0; mesh < orders.size(); ++mesh) {
    std::string row(column_of(timing.makespan_s), '.');
    for (std::size_t place = 0; place < orders[mesh].size(); ++place) {
      const Interval& time = timing.tasks[mesh][place];
      const std::size_t begin = column_of(time.begin_s), end = column_of(time.end_s);
      if (begin >= end) continue;
      std::string drawn = label_of(orders[mesh][place], with_stage);
      drawn.resize(end - begin, '-');
      row.replace(begin, end - begin, drawn);
    }
    text += format("{} {}  {}\n", row_word, mesh, row);
  }
  return text;
}

}  // namespace fourfold::pipeline
