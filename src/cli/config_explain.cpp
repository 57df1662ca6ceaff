#include <cstdio>

#include "cli/commands.h"
#include "config/explain.h"

namespace fourfold::cli {

void config_explain(const ConfigExplainArguments& arguments) {
  const std::string text =
      arguments.markdown ? config::keys_markdown() : config::explain(arguments.key);
  std::fputs(text.c_str(), stdout);
}

}  // namespace fourfold::cli
