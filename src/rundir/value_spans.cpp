#include "rundir/value_spans.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "config/compare.h"
#include "config/print.h"
#include "rundir/sessions.h"

namespace fourfold::rundir {

std::vector<Held> held_configs(const std::string& path, const LoadConfig& load) {
  std::vector<Held> side;
  std::int64_t first_step = 0;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const std::vector<Session> sessions = trajectory(read_sessions(path));
    for (std::size_t i = 0; i + 1 < sessions.size(); ++i) {
      const std::string file = config_of(sessions[i]);
      try {
        side.push_back({sessions[i].first_step, load(file)});
        config::restore_origins(side.back().config, file, read_file(file));
      } catch (const UserError&) {
        continue;
      }
    }
    if (!sessions.empty()) first_step = sessions.back().first_step;
  }
  side.push_back({side.empty() ? 0 : first_step, load(path)});
  return side;
}

std::string ValueSpan::place() const {
  if (last)
    return format("{}; steps {} to {}", origin.place, format_grouped(first + 1),
                  format_grouped(*last));
  return first == 0 ? origin.place
                    : format("{}; from step {}", origin.place, format_grouped(first + 1));
}

bool ValueSpan::operator==(const ValueSpan& other) const {
  return origin.value == other.origin.value && first == other.first && last == other.last;
}

std::vector<ValueSpan> spans_of(const config::Key& key, const std::vector<Held>& configs) {
  std::vector<ValueSpan> spans;
  for (const Held& held : configs) {
    config::Origin now = config::value_of(key, held.config);
    if (!spans.empty() && spans.back().origin.value == now.value) {
      spans.back().origin = std::move(now);
      continue;
    }
    if (!spans.empty()) spans.back().last = held.first_step;
    spans.push_back({std::move(now), held.first_step, std::nullopt});
  }
  return spans;
}

std::string differences(const std::vector<Held>& left, const std::vector<Held>& right) {
  struct DifferentKey {
    std::string key;
    std::array<std::vector<ValueSpan>, 2> sides;
  };
  std::vector<DifferentKey> rows;
  std::size_t columns = 0;
  for (const config::Key& key : config::keys()) {
    DifferentKey row{key.path, {spans_of(key, left), spans_of(key, right)}};
    if (row.sides[0] == row.sides[1]) continue;
    for (const auto& side : row.sides)
      for (const ValueSpan& span : side) columns = std::max(columns, span.origin.value.size());
    rows.push_back(std::move(row));
  }
  std::string text;
  for (const DifferentKey& row : rows) {
    text += row.key + "\n";
    for (std::size_t side = 0; side < row.sides.size(); ++side)
      for (const ValueSpan& span : row.sides[side])
        text += format("  {} {:<{}}  # {}\n", side == 0 ? '-' : '+', span.origin.value, columns,
                       span.place());
  }
  return text;
}

}  // namespace fourfold::rundir
