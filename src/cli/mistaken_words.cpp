#include "cli/mistaken_words.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "config/suggest.h"

namespace fourfold::cli {
namespace {

/// "--help" is shown with each message.
std::string help_of(std::span<const std::string> path) {
  std::string command = "fourfold";
  for (const std::string& name : path) command += " " + name;
  return command + " --help";
}

std::string about_option(const CommandSpec& command, const std::string& word) {
  std::vector<std::string> names;
  for (const OptionSpec& option : command.options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  const std::string name = word.substr(0, word.find('='));
  const auto meant = nearest(name, names);
  if (meant) return format("unknown option '{}'; did you mean '{}'?", name, *meant);
  // Other tools have an option for each key.
  const std::string key = config::suggest(name.substr(name.find_first_not_of('-'))).key;
  const bool takes_keys = std::find(names.begin(), names.end(), "--set") != names.end();
  if (takes_keys && !key.empty())
    return format("unknown option '{}'; did you mean '--set {}=...'?", name, key);
  return format("unknown option '{}'; the options are {}", name, join(names, ", "));
}

/// Our commands, and what other tools call them.
constexpr auto other_names = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"generate", "sample,infer,chat"},
     {"train", "resume,finetune,fit"},
     {"eval", "test"},
     {"data tokenize", "prepare,preprocess,tokenize"},
     {"export", "convert"}});

std::string about_word(const CommandSpec& command, const std::string& word) {
  std::vector<std::string> names;
  for (const OptionSpec& option : command.options) names.push_back(option.names.front());
  const bool takes_keys = std::find(names.begin(), names.end(), "--set") != names.end();
  return format(
      "nothing takes '{}'; {}", word,
      takes_keys ? "a key is changed by --set KEY=VALUE" : "the options are " + join(names, ", "));
}

std::string about_command(const CommandSpec& command, const std::string& word) {
  std::vector<std::string> names;
  for (const CommandSpec& sub : command.commands) names.push_back(sub.name);
  for (const auto& [ours, theirs] : other_names)
    if (std::ranges::count(split(theirs, ','), word) > 0 &&
        std::ranges::count(names, ours.substr(0, ours.find(' '))) > 0)
      return format("unknown command '{}'; did you mean '{}'?", word, ours);
  const auto meant = nearest(word, names);
  if (meant) return format("unknown command '{}'; did you mean '{}'?", word, *meant);
  return format("unknown command '{}'; the commands are {}", word, join(names, ", "));
}

}  // namespace

std::string mistaken_words(const CommandSpec& root, std::span<const std::string> path,
                           std::span<const std::string> words) {
  const CommandSpec* command = &root;
  for (const std::string& name : path) {
    const auto found = std::find_if(command->commands.begin(), command->commands.end(),
                                    [&](const CommandSpec& sub) { return sub.name == name; });
    if (found != command->commands.end()) command = &*found;
  }
  std::string text;
  bool follows_option = false;
  for (const std::string& word : words) {
    const bool is_option =
        word.find_first_not_of('-') > 0 && word.find_first_not_of('-') != word.npos;
    const bool wants_command = !command->commands.empty();
    // The value of an option that is none: one line says enough.
    if (!is_option && std::exchange(follows_option, false)) continue;
    follows_option = is_option && word.find('=') == word.npos;
    if (!text.empty()) text += "\n";
    if (is_option)
      text += "error: " + about_option(*command, word);
    else if (wants_command)
      text += "error: " + about_command(*command, word);
    else
      text += "error: " + about_word(*command, word);
    if (wants_command && !is_option) break;  // the words after it belong to it
  }
  return text + format("\n({} says more)", help_of(path));
}

}  // namespace fourfold::cli
