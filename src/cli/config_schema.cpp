#include <cstdio>

#include "cli/commands.h"
#include "config/json_schema.h"

namespace fourfold::cli {

void config_schema() {
  std::fputs(config::json_schema().c_str(), stdout);
}

}  // namespace fourfold::cli
