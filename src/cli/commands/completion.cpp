#include "cli/completion.h"

#include <utility>

#include "cli/command.h"
#include "config/schema.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

struct CompletionArguments {
  std::string shell;
  Caller caller;
};

void list_options(OptionList& options, CompletionArguments& given) {
  given.caller = options.caller();
  options.add("SHELL", given.shell, "bash, zsh or fish",
              {.is_required = true, .one_of = "bash,zsh,fish"});
}

void print_completion(const CompletionArguments& arguments) {
  Commands commands(arguments.caller);
  add_commands(commands);
  std::vector<KeySpec> keys;
  for (const config::Key& key : config::keys())
    keys.push_back({key.path, config::value_words(key)});
  CommandSpec program = commands.spec();
  CommandSpec help{"help", "Show the options of a command", {}, {}};
  for (const CommandSpec& command : program.commands) help.words.push_back(command.name);
  program.commands.push_back(std::move(help));
  screen::print_text(completion_script(arguments.shell, program, keys));
}

}  // namespace

void add_completion(Commands& commands) {
  commands.add({"completion", After{"doctor"}, "Print a script by which a shell completes commands",
                "completion bash > fourfold.bash"},
               list_options, print_completion);
}

}  // namespace fourfold::cli
