#include <cstdio>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/units.h"
#include "cli/commands.h"
#include "config/template.h"
#include "screen/print.h"

namespace fourfold::cli {

void config_new(const ConfigNewArguments& arguments) {
  const std::string& file = arguments.output;
  if (arguments.model != "gpt")
    throw UserError(
        ExitCode::bad_config,
        format("there is no template of a '{}'; choose --model gpt{}", arguments.model,
               arguments.model == "vgg" ? ", or begin with configs/vgg-tiny.yaml" : ""));
  const std::string text = config::template_yaml(arguments.size, file.empty() ? "FILE.yaml" : file);
  if (file.empty()) {
    screen::print_text(text);
    return;
  }
  if (file_exists(file))
    throw UserError(ExitCode::bad_config,
                    format("{} is there already; choose another name, or remove it", file));
  write_file_atomic(file, text);
  screen::print(
      "%s: a GPT of %s parameters that reads data/bible.txt; for a text of yours set data.path%s; "
      "then: fourfold train %s\n",
      file.c_str(), arguments.size.c_str(),
      config::template_vocabulary(arguments.size) > 0
          ? format(", and data.tokenizer to one of up to {} tokens, as `fourfold data "
                   "train-tokenizer` makes them",
                   format_grouped(config::template_vocabulary(arguments.size)))
                .c_str()
          : "",
      file.c_str());
}

}  // namespace fourfold::cli
