
#include "cli/commands.h"
#include "config/json_schema.h"
#include "screen/print.h"

namespace fourfold::cli {

void config_schema() {
  screen::print_text(config::json_schema());
}

}  // namespace fourfold::cli
