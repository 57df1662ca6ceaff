// What others need to know of all commands: completion, and an example of each.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "command_line/options.h"
#include "config/schema.h"
#include "machine/known_clusters.h"

namespace fourfold::command_line {
namespace {

/// What an option takes, where one_of says so: "TEXT:{auto,cpu,cuda}"; a key of --override, a
/// machine that is known.
std::vector<std::string> words_of(const CLI::Option& option) {
  std::vector<std::string> words;
  if (option.get_name() == "--override") {
    words = config::sections();
    for (const config::Key& key : config::keys()) words.push_back(key.path);
  }
  if (option.get_name() == "MACHINE" || option.get_name() == "--machine")
    for (const machine::KnownCluster& known : machine::known_clusters())
      words.push_back(known.name);
  std::string type = option.get_type_name();
  const std::size_t colon = type.find(':');
  if (colon == type.npos || type.find(',') == type.npos || type.find(" - ") != type.npos)
    return words;
  type = type.substr(colon + 1);
  std::erase_if(type, [](char letter) { return letter == '{' || letter == '}'; });
  return split(type, ',');
}

OptionSpec option_spec(const CLI::Option& option) {
  OptionSpec spec;
  for (const std::string& name : option.get_snames()) spec.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    spec.names.insert(spec.names.begin(), "--" + name);
  spec.meaning = option.get_description();
  spec.takes_value = option.get_expected_max() > 0 && option.get_type_size_max() > 0;
  spec.values = words_of(option);
  return spec;
}

/// A command's own word in place of a file: a shell, or what is measured; a key.
std::vector<std::string> words_behind(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::Option* option : app.get_options()) {
    if (option->nonpositional()) continue;
    for (std::string& word : words_of(*option)) words.push_back(std::move(word));
    if (option->get_name() == "KEY")
      for (const config::Key& key : config::keys()) words.push_back(key.path);
  }
  return words;
}

struct Example {
  std::vector<const char*> path;
  const char* command;
};

}  // namespace

CommandSpec command_spec(const CLI::App& app) {
  CommandSpec spec{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional()) spec.options.push_back(option_spec(*option));
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    spec.commands.push_back(command_spec(*sub));
  spec.words = words_behind(app);
  return spec;
}

void add_completion(CLI::App& app, Commands& commands) {
  auto* sub =
      app.add_subcommand("completion", "Print a script by which a shell completes commands");
  sub->add_option("SHELL", commands.shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  sub->callback([&] {
    commands.chosen = [&] {
      std::vector<KeySpec> keys;
      for (const config::Key& key : config::keys())
        keys.push_back({key.path, config::value_words(key)});
      CommandSpec root = command_spec(app);
      CommandSpec help{"help", "Show the options of a command", {}, {}};
      for (const CommandSpec& command : root.commands) help.words.push_back(command.name);
      root.commands.push_back(std::move(help));
      commands.actions.completion(completion_script(commands.shell, root, keys));
    };
  });
}

void add_examples(CLI::App& app) {
  for (const Example& example : std::vector<Example>{
           {{"train"},
            "train configs/gpt-quickstart.yaml --set run.name=slow --set optimizer.lr=3e-4"},
           {{"generate"},
            "generate runs/gpt-quickstart --prompt \"In the beginning\" --tokens 100"},
           {{"ckpt"}, "ckpt ls runs/gpt-quickstart"},
           {{"ckpt", "ls"}, "ckpt ls runs/gpt-quickstart"},
           {{"ckpt", "info"}, "ckpt info runs/gpt-quickstart --step 500"},
           {{"ckpt", "verify"}, "ckpt verify runs/gpt-quickstart"},
           {{"ckpt", "prune"}, "ckpt prune runs/gpt-quickstart --keep 2"},
           {{"eval"}, "eval runs/gpt-quickstart --text data/bible.txt"},
           {{"report"}, "report runs/gpt-quickstart runs/slow -o compared.html"},
           {{"export"}, "export runs/gpt-quickstart -o gpt-quickstart-hf --dtype bf16"},
           {{"import"}, "import gpt-quickstart-hf -o runs/imported"},
           {{"data"}, "data inspect data/bible.txt"},
           {{"data", "tokenize"},
            "data tokenize data/bible.txt -o data/bible --tokenizer sentencepiece --tokenizer-path "
            "data/bible.model --append-eod"},
           {{"data", "train-tokenizer"},
            "data train-tokenizer data/bible.txt -o data/bible.model --vocab-size 1000"},
           {{"data", "inspect"}, "data inspect data/bible.txt"},
           {{"data", "verify"}, "data verify data/bible"},
           {{"trace"}, "trace summary runs/look"},
           {{"trace", "summary"}, "trace summary runs/look --json"},
           {{"trace", "tasks"}, "trace tasks runs/look --step 3"},
           {{"program"}, "program configs/gpt-quickstart.yaml --program all --rank 1"},
           {{"plan"}, "plan configs/paper/gpt-20b.yaml --machine perlmutter-40gb --ranks 32"},
           {{"verify"}, "verify configs/paper/gpt-80b.yaml"},
           {{"simulate"}, "simulate configs/paper/gpt-80b.yaml --machine perlmutter-40gb"},
           {{"config"}, "config explain optimizer.lr"},
           {{"config", "check"}, "config check mine.yaml --set train.steps=500"},
           {{"config", "show"}, "config show runs/gpt-quickstart"},
           {{"config", "diff"}, "config diff mine.yaml runs/gpt-quickstart"},
           {{"config", "explain"}, "config explain optimizer.lr"},
           {{"config", "schema"}, "config schema > fourfold.schema.json"},
           {{"config", "new"}, "config new --size 124M -o mine.yaml"},
           {{"bench"}, "bench step configs/gpt-tiny.yaml"},
           {{"machines"}, "machines perlmutter-40gb"},
           {{"doctor"}, "doctor"},
           {{"completion"}, "completion bash > fourfold.bash"}}) {
    CLI::App* command = &app;
    for (const char* name : example.path) command = command->get_subcommand(name);
    command->footer(format("Example:\n  fourfold {}", example.command));
  }
}

}  // namespace fourfold::command_line
