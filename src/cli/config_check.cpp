#include <cstdio>

#include "cli/commands.h"
#include "cli/job.h"

namespace fourfold::cli {

void config_check(const ConfigSource& source) {
  load_config(source);
  std::string names;
  for (const std::string& file : source.files) names += (names.empty() ? "" : ", ") + file;
  std::printf("%s: no errors\n", names.c_str());
}

}  // namespace fourfold::cli
