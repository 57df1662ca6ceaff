
#include "cli/commands.h"
#include "cli/print.h"
#include "config/explain.h"

namespace fourfold::cli {

void config_explain(const ConfigExplainArguments& arguments) {
  const std::string text =
      arguments.markdown ? config::keys_markdown() : config::explain(arguments.key);
  print_text(text);
}

}  // namespace fourfold::cli
