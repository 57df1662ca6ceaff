#include "command_line/carry_out.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "command_line/mistaken_words.h"
#include "command_line/options.h"
#include "measure/build_info.h"

namespace fourfold::command_line {
namespace {

/// The library writes "INT:INT in [1 - 9]".
class HelpText : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    for (const char* kind : {"INT", "FLOAT"}) {
      const std::string twice = format("{}:{} in ", kind, kind);
      const std::size_t at = text.find(twice);
      if (at != text.npos) text.replace(at, twice.size(), format("{} in ", kind));
    }
    return text;
  }
};

/// "help train" is "train --help". What is no command is left alone, and refused as one.
std::vector<std::string> words_of_line(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (words.empty() || words[0] != "help") return words;
  words.erase(words.begin());
  const CLI::App* command = &app;
  for (const std::string& word : words) {
    const auto within = command->get_subcommands([](const CLI::App*) { return true; });
    if (within.empty()) break;
    const auto named = std::ranges::find(within, word, &CLI::App::get_name);
    if (named == within.end()) return words;
    command = *named;
  }
  words.emplace_back("--help");
  return words;
}

/// What is wrong with a command line, and what to do.
std::string what_is_mistaken(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* deepest = &app;
  std::vector<std::string> path;
  for (auto subs = app.get_subcommands(); !subs.empty(); subs = deepest->get_subcommands()) {
    deepest = subs.front();
    path.push_back(deepest->get_name());
  }
  // The library gives them from the outermost command inwards, as they stand in the line.
  std::vector<std::string> words = app.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
      (!words.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr))
    return mistaken_words(command_spec(app), path, words);
  std::string command = "fourfold";
  for (const std::string& name : path) command += " " + name;
  std::vector<std::string> names;
  for (const CLI::App* sub : deepest->get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  const std::string what = names.empty()
                               ? std::string(error.what())
                               : format("{} needs a subcommand: {}", command, join(names, ", "));
  return format("error: {}\n({} --help says more)", what, command);
}

}  // namespace

void carry_out(int argc, char** argv, const comm::Variable& variable, const Actions& actions) {
  CLI::App app(
      "Fourfold trains GPT, VGG and U-Net models. The step is a program: compiled, verified, run, "
      "printed.",
      "fourfold");
  app.formatter(std::make_shared<HelpText>());
  app.set_version_flag("--version", measure::version_text,
                       "Print what this binary is and was built with");
  app.require_subcommand(1);
  app.footer(
      "Start with: fourfold train configs/gpt-quickstart.yaml\n"
      "Keys of a configuration: fourfold config explain [KEY]");
  Commands commands;
  commands.actions = actions;
  commands.train.launcher = comm::launcher_facts(variable);
  commands.train.variable = variable;
  commands.bench.launcher = comm::launcher_facts(variable);
  commands.bench.variable = variable;
  commands.doctor.variable = variable;
  commands.doctor.launcher = comm::launcher_facts(variable);
  commands.tokenize.variable = variable;
  commands.eval.variable = variable;
  commands.generate.variable = variable;
  commands.ckpt.variable = variable;
  commands.train_tokenizer.variable = variable;
  commands.train.command.assign(argv, argv + argc);
  add_train(app, commands);
  add_generate(app, commands);
  add_ckpt(app, commands);
  add_eval(app, commands);
  add_report(app, commands);
  add_export(app, commands);
  add_import(app, commands);
  add_data(app, commands);
  add_trace(app, commands);
  add_program(app, commands);
  add_plan(app, commands);
  add_verify(app, commands);
  add_simulate(app, commands);
  add_config(app, commands);
  add_bench(app, commands);
  add_machines(app, commands);
  add_doctor(app, commands);
  add_completion(app, commands);
  add_examples(app);
  try {
    std::vector<std::string> words = words_of_line(app, argc, argv);
    std::reverse(words.begin(), words.end());  // as the library wants them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0)
      throw UserError(ExitCode::bad_config, what_is_mistaken(app, error));
    app.exit(error);  // prints what --help or --version asks for
    return;
  }
  commands.chosen();
}

}  // namespace fourfold::command_line
