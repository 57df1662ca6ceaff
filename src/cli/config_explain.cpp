
#include "cli/commands.h"
#include "config/explain.h"
#include "screen/print.h"

namespace fourfold::cli {

void config_explain(const ConfigExplainArguments& arguments) {
  const std::string text =
      arguments.markdown ? config::keys_markdown() : config::explain(arguments.key);
  screen::print_text(text);
}

}  // namespace fourfold::cli
