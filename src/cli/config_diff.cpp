#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/config_source.h"
#include "config/compare.h"
#include "config/print.h"
#include "config/schema.h"
#include "rundir/sessions.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// A configuration, and the number of steps that were done before it held.
struct Held {
  std::int64_t first_step = 0;
  config::Config config;
};

/// One configuration for a file; for a run the last one, after those of the sessions before, whose
/// records may be unreadable and are then left out.
std::vector<Held> read_side(const std::string& path) {
  std::vector<Held> side;
  std::int64_t first_step = 0;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    const std::vector<rundir::Session> sessions = rundir::trajectory(rundir::read_sessions(path));
    for (std::size_t i = 0; i + 1 < sessions.size(); ++i) {
      const std::string file = rundir::config_of(sessions[i]);
      try {
        side.push_back({sessions[i].first_step, load_file_or_run(file)});
        config::restore_origins(side.back().config, file, read_file(file));
      } catch (const UserError&) {
        continue;
      }
    }
    if (!sessions.empty()) first_step = sessions.back().first_step;
  }
  side.push_back({side.empty() ? 0 : first_step, load_file_or_run(path)});
  return side;
}

/// A value of a key, and the steps for which it held; `last` is none where it holds to the end.
struct Span {
  config::Origin origin;
  std::int64_t first = 0;
  std::optional<std::int64_t> last;

  std::string place() const {
    if (last)
      return format("{}; steps {} to {}", origin.place, format_grouped(first + 1),
                    format_grouped(*last));
    return first == 0 ? origin.place
                      : format("{}; from step {}", origin.place, format_grouped(first + 1));
  }
  bool operator==(const Span& other) const {
    return origin.value == other.origin.value && first == other.first && last == other.last;
  }
};

std::vector<Span> spans_of(const config::Key& key, const std::vector<Held>& side) {
  std::vector<Span> spans;
  for (const Held& held : side) {
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

/// What is printed of a key: the values of the left side, then those of the right one.
struct Row {
  std::string key;
  std::array<std::vector<Span>, 2> sides;
};

}  // namespace

void config_diff(const ConfigDiffArguments& arguments) {
  const std::vector<Held> left = read_side(arguments.left), right = read_side(arguments.right);
  std::vector<Row> rows;
  std::size_t value_columns = 0;
  for (const config::Key& key : config::keys()) {
    Row row{key.path, {spans_of(key, left), spans_of(key, right)}};
    if (row.sides[0] == row.sides[1]) continue;
    for (const auto& side : row.sides)
      for (const Span& span : side)
        value_columns = std::max(value_columns, span.origin.value.size());
    rows.push_back(std::move(row));
  }
  if (rows.empty()) screen::print("no differences\n");
  for (const Row& row : rows) {
    screen::print("%s\n", row.key.c_str());
    for (std::size_t side = 0; side < row.sides.size(); ++side)
      for (const Span& span : row.sides[side])
        screen::print("%s", format("  {} {:<{}}  # {}\n", side == 0 ? '-' : '+', span.origin.value,
                                   value_columns, span.place())
                                .c_str());
  }
}

}  // namespace fourfold::cli
