
#include "cli/commands.h"
#include "cli/config_source.h"
#include "config/print.h"
#include "screen/print.h"

namespace fourfold::cli {

void config_show(const ConfigShowArguments& arguments) {
  const config::Config config = load_files_or_run(arguments.config);
  const std::string text =
      arguments.plain ? config::resolved_yaml(config) : config::shown_yaml(config);
  screen::print_text(text);
}

}  // namespace fourfold::cli
