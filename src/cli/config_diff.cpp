#include <algorithm>
#include <cstdio>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/config_source.h"
#include "config/compare.h"

namespace fourfold::cli {

void config_diff(const ConfigDiffArguments& arguments) {
  const std::vector<config::Difference> differences =
      config::differences(load_file_or_run(arguments.left), load_file_or_run(arguments.right));
  if (differences.empty()) {
    std::printf("no differences\n");
    return;
  }
  std::size_t value_columns = 0;
  for (const auto& [key, left, right] : differences)
    value_columns = std::max({value_columns, left.value.size(), right.value.size()});
  for (const auto& [key, left, right] : differences) {
    const auto line = [&](char mark, const config::Origin& side) {
      return format("  {} {:<{}}  # {}\n", mark, side.value, value_columns, side.place);
    };
    std::printf("%s\n%s%s", key.c_str(), line('-', left).c_str(), line('+', right).c_str());
  }
}

}  // namespace fourfold::cli
