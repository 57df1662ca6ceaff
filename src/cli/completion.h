// Scripts by which a shell completes fourfold's command line. Pure text from a description of the
// commands: the command line and the completion cannot disagree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace fourfold::cli {

struct OptionSpec {
  std::vector<std::string> names;  // "--set", "-o"
  std::string meaning;
  bool takes_value = false;
  std::vector<std::string> values;  // where it takes one of these
};

/// A command and those below it.
struct CommandSpec {
  std::string name, meaning;
  std::vector<OptionSpec> options;
  std::vector<CommandSpec> commands;
  std::vector<std::string> words = {};  // that may follow it: "bash", "model.num_layers"
};

/// What the program says of the options that every command has, or that it has itself.
inline OptionSpec help_option() {
  return {{"--help", "-h"}, "Print this help message and exit", false, {}};
}
inline constexpr std::string_view version_meaning = "Print what this binary is and was built with";

/// A key of configurations.
struct KeySpec {
  std::string path;
  std::vector<std::string> values;  // where it takes one of these
};

/// The script for "bash", "zsh" or "fish"; `keys` and their values are offered after --set.
/// Errors: UserError(bad_config) for another shell.
std::string completion_script(std::string_view shell, const CommandSpec& root,
                              const std::vector<KeySpec>& keys);

}  // namespace fourfold::cli
