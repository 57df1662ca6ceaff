// The one file that knows the library for command lines: its header alone compiles for seconds.
#include "cli/parse.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "cli/mistaken_words.h"
#include "measure/build_info.h"

namespace fourfold::cli {
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

/// The library's own checks name bounds that nobody has set.
CLI::Validator not_below(int least) {
  const auto fault = [least](std::string& text) {
    double value = 0;
    const bool is_fine = CLI::detail::lexical_cast(text, value) && value >= least;
    return is_fine ? std::string()
                   : format("expected a number of at least {}; got {}", least, text);
  };
  return {fault, ""};
}

void add_check(CLI::Option& added, const OptionFacts& facts) {
  if (!facts.one_of.empty()) {
    CLI::Validator check = CLI::IsMember(split(facts.one_of, ','));
    added.check(check.name(facts.one_of));
  }
  if (const auto* bounds = std::get_if<Whole>(&facts.within))
    added.check(CLI::Range(bounds->least, bounds->most));
  if (const auto* bounds = std::get_if<Real>(&facts.within))
    added.check(CLI::Range(bounds->least, bounds->most));
  if (const auto* bound = std::get_if<Least>(&facts.within)) added.check(not_below(bound->least));
  if (facts.fault != nullptr) added.check(CLI::Validator(facts.fault, ""));
}

CLI::Option* add_option(CLI::App& app, const Option& option) {
  CLI::Option* added = std::visit(
      [&](auto* target) {
        if constexpr (std::is_same_v<decltype(target), bool*>)
          return app.add_flag(option.names, *target, option.meaning);
        else
          return app.add_option(option.names, *target, option.meaning);
      },
      option.target);
  const OptionFacts& facts = option.facts;
  if (facts.is_required) added->required();
  if (facts.takes_one) added->allow_extra_args(false);
  if (facts.count > 0) added->expected(facts.count);
  if (facts.separator != 0) added->delimiter(facts.separator);
  if (!facts.value_name.empty()) added->type_name(facts.value_name);
  add_check(*added, facts);
  if (facts.shows_default) added->capture_default_str();
  return added;
}

/// The commands as the library has them, with what the line says of them.
class Parser {
 public:
  explicit Parser(const Commands& commands) : commands_(commands) {
    app_.formatter(std::make_shared<HelpText>());
    app_.set_version_flag("--version", measure::version_text, std::string(version_meaning));
    app_.require_subcommand(1);
    app_.footer(
        "Start with: fourfold train configs/gpt-quickstart.yaml\n"
        "Keys of a configuration: fourfold config explain [KEY]");
    add_below(app_, "");
  }

  const Command* parse(std::vector<std::string> words) {
    try {
      words = without_help(std::move(words));
      std::reverse(words.begin(), words.end());  // as the library wants them
      app_.parse(std::move(words));
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() != 0)
        throw UserError(ExitCode::bad_config, what_is_mistaken(error));
      app_.exit(error);  // prints what --help or --version asks for
      return nullptr;
    }
    for (const auto& [option, is_given] : told_) *is_given = *is_given || option->count() > 0;
    const Command* command = placed_at(&deepest());
    if (const std::string fault = command->fault(); !fault.empty())
      throw UserError(ExitCode::bad_config, with_remedy(fault));
    return command;
  }

 private:
  void add_below(CLI::App& app, const std::string& path) {
    for (const Command* command : commands_.below(path)) {
      CLI::App* sub = app.add_subcommand(name_of(*command), command->words.meaning);
      placed_.emplace_back(sub, command);
      add_options(*sub, command->options.options());
      if (!command->words.example.empty())
        sub->footer(format("Example:\n  fourfold {}", command->words.example));
      add_below(*sub, command->words.path);
      if (!sub->get_subcommands(any).empty()) sub->require_subcommand(1);
    }
  }

  void add_options(CLI::App& app, const std::vector<Option>& options) {
    std::vector<CLI::Option*> added;
    // Options that exclude each other are named by pointer: the library looks names up in a
    // function that is noexcept and allocates.
    const auto each_of = [&](const std::string& names, const auto& act) {
      if (names.empty()) return;
      for (const std::string& name : split(names, ',')) {
        const auto place = std::ranges::find(options, name, &Option::names);
        const auto index = static_cast<std::size_t>(place - options.begin());
        require(index < added.size(), "an option is named that stands before this one");
        act(added[index]);
      }
    };
    for (const Option& option : options) {
      CLI::Option* made = add_option(app, option);
      each_of(option.facts.excludes, [&](CLI::Option* other) { made->excludes(other); });
      each_of(option.facts.needs, [&](CLI::Option* other) { made->needs(other); });
      if (option.is_given != nullptr) told_.emplace_back(made, option.is_given);
      added.push_back(made);
    }
  }

  /// "help train" is "train --help". What is no command is left alone, and refused as one.
  std::vector<std::string> without_help(std::vector<std::string> words) const {
    if (words.empty() || words[0] != "help") return words;
    words.erase(words.begin());
    const CLI::App* command = &app_;
    for (const std::string& word : words) {
      const auto within = command->get_subcommands(any);
      if (within.empty()) break;
      const auto found = std::ranges::find(within, word, &CLI::App::get_name);
      if (found == within.end()) return words;
      command = *found;
    }
    words.emplace_back("--help");
    return words;
  }

  /// The last command that the line names.
  const CLI::App& deepest() const {
    const CLI::App* last = &app_;
    for (auto subs = app_.get_subcommands(); !subs.empty(); subs = last->get_subcommands())
      last = subs.front();
    return *last;
  }

  const Command* placed_at(const CLI::App* app) const {
    const auto found = std::ranges::find(placed_, app, &Placed::first);
    require(found != placed_.end(), "the library chooses a command that was given to it");
    return found->second;
  }

  /// The program's name, and those of the commands that were understood.
  std::vector<std::string> path() const {
    std::vector<std::string> names;
    for (const CLI::App* app = &deepest(); app != nullptr; app = app->get_parent())
      names.insert(names.begin(), app->get_name());
    return names;
  }

  std::string command_words() const { return join(path(), " "); }
  std::string with_remedy(const std::string& what) const {
    return format("error: {}\n({} --help says more)", what, command_words());
  }

  /// What is wrong with a command line, and what to do.
  std::string what_is_mistaken(const CLI::ParseError& error) const {
    // The library gives them from the outermost command inwards, as they stand in the line.
    const std::vector<std::string> words = app_.remaining(true), names = path();
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr ||
        (!words.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr))
      return mistaken_words(commands_.spec(), std::span(names).subspan(1), words);
    std::vector<std::string> within;
    for (const CLI::App* sub : deepest().get_subcommands(any)) within.push_back(sub->get_name());
    return with_remedy(
        within.empty() ? std::string(error.what())
                       : format("{} needs a subcommand: {}", command_words(), join(within, ", ")));
  }

  static bool any(const CLI::App*) { return true; }

  using Placed = std::pair<const CLI::App*, const Command*>;
  const Commands& commands_;
  CLI::App app_{
      "Fourfold trains GPT, VGG and U-Net models. The step is a program: compiled, verified, run, "
      "printed.",
      "fourfold"};
  std::vector<Placed> placed_;
  std::vector<std::pair<const CLI::Option*, bool*>> told_;  // whether the line has the option
};

}  // namespace

const Command* parse(const Commands& commands, const std::vector<std::string>& line) {
  return Parser(commands).parse({line.begin() + 1, line.end()});
}

}  // namespace fourfold::cli
