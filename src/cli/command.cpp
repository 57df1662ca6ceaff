#include "cli/command.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/text.h"

namespace fourfold::cli {
namespace {

/// "data verify" stands below "data", "train" below "".
std::string path_above(const std::string& path) {
  const std::size_t space = path.rfind(' ');
  return space == path.npos ? std::string() : path.substr(0, space);
}

/// Appends the commands that follow this one, each with those that follow it.
void append_after(const std::string& name, const std::vector<Command*>& commands,
                  std::vector<Command*>& ordered) {
  for (Command* command : commands) {
    if (command->words.after.name != name) continue;
    ordered.push_back(command);
    append_after(name_of(*command), commands, ordered);
  }
}

bool has_place_of_its_own(const Option& option) {
  return !option.names.starts_with('-');
}

std::vector<std::string> values_of(const Option& option) {
  if (option.facts.offers != nullptr) return option.facts.offers();
  return option.facts.one_of.empty() ? std::vector<std::string>() : split(option.facts.one_of, ',');
}

OptionSpec spec_of(const Option& option) {
  OptionSpec spec{split(option.names, ','), option.meaning,
                  !std::holds_alternative<bool*>(option.target), values_of(option)};
  // The long name is the first one.
  std::ranges::stable_partition(spec.names,
                                [](std::string_view name) { return name.starts_with("--"); });
  return spec;
}

CommandSpec spec_of(const Commands& commands, const std::string& path, std::string name,
                    std::string meaning) {
  CommandSpec spec{std::move(name), std::move(meaning), {help_option()}, {}};
  for (const Command* command : commands.below(path)) {
    const CommandWords& words = command->words;
    CommandSpec& below =
        spec.commands.emplace_back(spec_of(commands, words.path, name_of(*command), words.meaning));
    for (const Option& option : command->options.options()) {
      if (!has_place_of_its_own(option)) {
        below.options.push_back(spec_of(option));
        continue;
      }
      const std::vector<std::string> values = values_of(option);
      below.words.insert(below.words.end(), values.begin(), values.end());
    }
  }
  return spec;
}

}  // namespace

std::string name_of(const Command& command) {
  const std::string& path = command.words.path;
  return path.substr(path.rfind(' ') + 1);
}

std::vector<Command*> Commands::below(const std::string& path) const {
  std::vector<Command*> found, ordered;
  for (const auto& command : commands_)
    if (path_above(command->words.path) == path) found.push_back(command.get());
  std::ranges::sort(found, {}, [](const Command* command) { return command->words.path; });
  append_after("", found, ordered);
  require(ordered.size() == found.size(), "each command follows another one beside it");
  return ordered;
}

CommandSpec Commands::spec() const {
  CommandSpec spec = spec_of(*this, "", "fourfold", "");
  spec.options.push_back({{"--version"}, std::string(version_meaning), false, {}});
  return spec;
}

}  // namespace fourfold::cli
