
#include "cli/commands.h"
#include "cli/print.h"
#include "config/json_schema.h"

namespace fourfold::cli {

void config_schema() {
  print_text(config::json_schema());
}

}  // namespace fourfold::cli
