#include "cli/completion.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"

namespace fourfold::cli {
namespace {

/// Every command with its words from the program's name on: "train", "config show".
void collect(const CommandSpec& command, const std::string& path,
             std::vector<std::pair<std::string, const CommandSpec*>>& all) {
  all.emplace_back(path, &command);
  for (const CommandSpec& child : command.commands)
    collect(child, path.empty() ? child.name : path + " " + child.name, all);
}

std::string names_of(const CommandSpec& command) {
  std::string words;
  for (const CommandSpec& child : command.commands) words += child.name + ' ';
  for (const std::string& word : command.words) words += word + ' ';
  for (const OptionSpec& option : command.options)
    for (const std::string& name : option.names) words += name + ' ';
  if (!words.empty()) words.pop_back();
  return words;
}

/// In single quotes of a shell.
std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char letter : text)
    result += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return result + "'";
}

/// The part that bash and zsh share: functions of `case`, from a path of commands to words, and
/// from an option to its values. Options of one name take the same values everywhere.
std::string shared_functions(const CommandSpec& root, const std::vector<KeySpec>& keys) {
  std::vector<std::pair<std::string, const CommandSpec*>> all;
  collect(root, "", all);
  std::string words, values;
  std::vector<std::string> seen;
  for (const auto& [path, command] : all) {
    words += format("    {}) echo {} ;;\n", in_quotes(path), in_quotes(names_of(*command)));
    for (const OptionSpec& option : command->options) {
      if (!option.takes_value) continue;
      const std::string names = join(option.names, "|");
      if (std::find(seen.begin(), seen.end(), names) != seen.end()) continue;
      seen.push_back(names);
      if (option.names[0] == "--set") continue;
      values += format("    {}) echo {} ;;\n", names, in_quotes(join(option.values, " ")));
    }
  }
  std::string settings;
  std::string key_values;
  for (const KeySpec& key : keys) {
    settings += key.path + "= ";
    if (!key.values.empty())
      key_values += format("    {}) echo {} ;;\n", key.path, in_quotes(join(key.values, " ")));
  }
  return format(R"(_fourfold_words() {{
  case "$1" in
{}  esac
}}
# Fails for what is no option with a value.
_fourfold_values() {{
  case "$1" in
{}    --set) echo {} ;;
    *) return 1 ;;
  esac
}}
_fourfold_key_values() {{
  case "$1" in
{}    *) ;;
  esac
}}
)",
                words, values, in_quotes(trim(settings)), key_values);
}

constexpr std::string_view bash_text = R"sh(_fourfold() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path= values i
  # bash cuts words at "=".
  if [[ $word == = || $before == = ]]; then
    [[ $word == = ]] && { i=$((COMP_CWORD - 1)); word=; } || i=$((COMP_CWORD - 2))
    COMPREPLY=($(compgen -W "$(_fourfold_key_values "${COMP_WORDS[i]}")" -- "$word"))
    return
  fi
  if values=$(_fourfold_values "$before"); then
    if [[ -z $values ]]; then COMPREPLY=($(compgen -f -- "$word")); return; fi
    COMPREPLY=($(compgen -W "$values" -- "$word"))
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ -n $(_fourfold_words "${path:+$path }${COMP_WORDS[i]}") ]]; then
      path=${path:+$path }${COMP_WORDS[i]}
    fi
  done
  COMPREPLY=($(compgen -W "$(_fourfold_words "$path")" -- "$word"))
  if [[ $word != -* && -n $path ]]; then COMPREPLY+=($(compgen -f -- "$word")); fi
}
complete -o filenames -o bashdefault -F _fourfold fourfold
)sh";

constexpr std::string_view zsh_text = R"sh(_fourfold() {
  local before=${words[CURRENT-1]} path_of= values i
  if values=$(_fourfold_values "$before"); then
    if [[ -z $values ]]; then _files; return; fi
    if [[ $before == --set && $PREFIX == *=* ]]; then
      compadd -- ${PREFIX%%=*}=${^=$(_fourfold_key_values "${PREFIX%%=*}")}
    elif [[ $before == --set ]]; then compadd -S '' -- ${=values}
    else compadd -- ${=values}; fi
    return
  fi
  for ((i = 2; i < CURRENT; i++)); do
    if [[ -n $(_fourfold_words "${path_of:+$path_of }${words[i]}") ]]; then
      path_of="${path_of:+$path_of }${words[i]}"
    fi
  done
  compadd -- ${=$(_fourfold_words "$path_of")}
  if [[ $PREFIX != -* && -n $path_of ]]; then _files; fi
}
compdef _fourfold fourfold
)sh";

std::string fish_options(const CommandSpec& command, const std::string& condition,
                         const std::vector<KeySpec>& keys) {
  std::string text;
  for (const OptionSpec& option : command.options) {
    std::string names;
    for (const std::string& name : option.names)
      names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    std::vector<std::string> values = option.values;
    if (option.names[0] == "--set")
      for (const KeySpec& key : keys) {
        values.push_back(key.path + "=");
        for (const std::string& value : key.values) values.push_back(key.path + "=" + value);
      }
    text += format("complete -c fourfold -n {}{}{}{} -d {}\n", in_quotes(condition), names,
                   option.takes_value ? (values.empty() ? " -rF" : " -x") : "",
                   values.empty() ? "" : " -a " + in_quotes(join(values, " ")),
                   in_quotes(option.meaning));
  }
  return text;
}

std::string fish_words(const CommandSpec& command, const std::string& condition) {
  if (command.words.empty()) return {};
  return format("complete -c fourfold -n {} -a {}\n", in_quotes(condition),
                in_quotes(join(command.words, " ")));
}

std::string fish_script(const CommandSpec& root, const std::vector<KeySpec>& keys) {
  std::string text = fish_options(root, "__fish_use_subcommand", keys);
  for (const CommandSpec& command : root.commands) {
    text += format("complete -c fourfold -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                   in_quotes(command.meaning));
    const std::string inside = "__fish_seen_subcommand_from " + command.name;
    text += fish_options(command, inside, keys) + fish_words(command, inside);
    for (const CommandSpec& child : command.commands) {
      text += format("complete -c fourfold -n {} -f -a {} -d {}\n", in_quotes(inside), child.name,
                     in_quotes(child.meaning));
      const std::string inside_child = inside + "; and __fish_seen_subcommand_from " + child.name;
      text += fish_options(child, inside_child, keys) + fish_words(child, inside_child);
    }
  }
  return text;
}

}  // namespace

std::string completion_script(std::string_view shell, const CommandSpec& root,
                              const std::vector<KeySpec>& keys) {
  if (shell == "bash")
    return "# source <(fourfold completion bash)\n" + shared_functions(root, keys) +
           std::string(bash_text);
  if (shell == "zsh")
    return "#compdef fourfold\n# source <(fourfold completion zsh)\n" +
           shared_functions(root, keys) + std::string(zsh_text);
  if (shell == "fish") return "# fourfold completion fish | source\n" + fish_script(root, keys);
  throw UserError(ExitCode::bad_config,
                  format("no completion for the shell '{}'; choose bash, zsh or fish", shell));
}

}  // namespace fourfold::cli
