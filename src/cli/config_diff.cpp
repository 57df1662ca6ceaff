#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/format.h"
#include "cli/commands.h"
#include "config/schema.h"
#include "job/config_source.h"
#include "rundir/value_spans.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// What is printed of a key: the values of the left side, then those of the right one.
struct DifferentKey {
  std::string key;
  std::array<std::vector<rundir::ValueSpan>, 2> sides;
};

}  // namespace

void config_diff(const ConfigDiffArguments& arguments) {
  const auto load = [](const std::string& path) {
    return job::load_config({.files = {path}, .sets = {}}, job::Takes::runs);
  };
  const std::vector<rundir::Held> left = rundir::held_configs(arguments.left, load),
                                  right = rundir::held_configs(arguments.right, load);
  std::vector<DifferentKey> rows;
  std::size_t value_columns = 0;
  for (const config::Key& key : config::keys()) {
    DifferentKey row{key.path, {rundir::spans_of(key, left), rundir::spans_of(key, right)}};
    if (row.sides[0] == row.sides[1]) continue;
    for (const auto& side : row.sides)
      for (const rundir::ValueSpan& span : side)
        value_columns = std::max(value_columns, span.origin.value.size());
    rows.push_back(std::move(row));
  }
  if (rows.empty()) screen::print("no differences\n");
  for (const DifferentKey& row : rows) {
    screen::print("%s\n", row.key.c_str());
    for (std::size_t side = 0; side < row.sides.size(); ++side)
      for (const rundir::ValueSpan& span : row.sides[side])
        screen::print("%s", format("  {} {:<{}}  # {}\n", side == 0 ? '-' : '+', span.origin.value,
                                   value_columns, span.place())
                                .c_str());
  }
}

}  // namespace fourfold::cli
