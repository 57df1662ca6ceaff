#include "config/explain.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "config/family.h"
#include "config/schema.h"
#include "config/sources.h"
#include "config/suggest.h"

namespace fourfold::config {
namespace {

constexpr std::size_t most_columns = 100;

std::string example_of(const Key& key) {
  return key.example.empty() ? key.fallback : key.example;
}

/// "parallel: {tensor: {x: 2}}".
std::string example_in_file(const Key& key) {
  const std::vector<std::string> names = split(key.path, '.');
  std::string text;
  for (std::size_t i = 0; i + 1 < names.size(); ++i)
    text += format("{}{}: ", i == 0 ? "" : "{", names[i]);
  const bool nests = names.size() > 1;
  text += format("{}{}: {}", nests ? "{" : "", names.back(), example_of(key));
  return text + std::string(names.size() - 1, '}');
}

/// `text` in lines of at most `most_columns`, all but the first indented.
std::string wrapped(std::string_view text, std::size_t indent) {
  std::string result;
  std::size_t column = indent;
  for (const std::string& word : split(text, ' ')) {
    const bool begins = column == indent;
    if (!begins && column + 1 + word.size() > most_columns) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!begins) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
  }
  return result;
}

std::string explain_key(const Key& key) {
  constexpr std::size_t label_columns = 13;
  std::string text = format("{}\n  {}\n\n", key.path, wrapped(key.meaning, 2));
  const auto row = [&](std::string_view label, const std::string& words) {
    if (!words.empty()) text += format("  {:<11}{}\n", label, wrapped(words, label_columns));
  };
  row("type", type_words(key));
  row("default", default_words(key));
  row("unit", key.unit);
  row("cost", key.cost);
  row("model", key.kinds.empty() ? "" : kind_words(key.kinds) + " alone");
  row("elsewhere", join(key.elsewhere, ", "));
  row("in a file", example_in_file(key));
  row("or", format("--set '{}={}'", key.path, example_of(key)));
  return text;
}

/// The keys of a section, or of all for "".
std::string explain_section(std::string_view section) {
  constexpr std::size_t name_columns = 34;
  std::string text = format("{}\n", section.empty() ? "all keys" : section);
  std::string_view first;
  for (const Key& key : keys()) {
    if (!is_inside(key.path, section)) continue;
    if (first.empty()) first = key.path;
    const std::size_t begin = section.empty() ? 0 : section.size() + 1;
    text += format("  {:<{}}{}\n", key.path.substr(begin), name_columns - 2,
                   wrapped(key.meaning, name_columns));
  }
  return text + format("\nmore about one: fourfold config explain {}\n", first);
}

std::string explain_extends() {
  return format(
      "{}\n  The file that this one changes: it is read first, and what stands here wins. Its path "
      "is seen\n  from the folder of this file; it may extend another.\n\n"
      "  type       text\n  in a file  {}: base.yaml\n",
      extends_key, extends_key);
}

}  // namespace

std::string explain(std::string_view path) {
  if (path == extends_key) return explain_extends();
  if (const Key* key = find_key(path)) return explain_key(*key);
  const auto all = sections();
  if (path.empty() || std::find(all.begin(), all.end(), path) != all.end())
    return explain_section(path);
  throw UserError(ExitCode::bad_config, format("unknown key '{}'; {}", path, suggest(path).text));
}

std::string keys_markdown() {
  std::string text =
      "# Keys\n\n"
      "Every key of a configuration, made by `fourfold config explain --markdown` from the table "
      "in "
      "`src/config/`.\n`fourfold config explain KEY` says more about one: what it costs, its names "
      "in other tools, an example.\nHow values are written and found: [configs](README.md).\n\n"
      "| key | type | default | unit | model | meaning | cost |\n|---|---|---|---|---|---|---|\n";
  for (const Key& key : keys())
    text += format("| `{}` | {} | {} | {} | {} | {} | {} |\n", key.path, type_words(key),
                   key.derived_words.empty() ? format("`{}`", key.fallback) : key.derived_words,
                   key.unit, kind_words(key.kinds), key.meaning, key.cost);
  text +=
      "\n## Names in other tools\n\nNone of these is read; each is answered with ours.\n\n"
      "| ours | elsewhere |\n|---|---|\n";
  for (const Key& key : keys()) {
    std::vector<std::string> names;
    for (const std::string& name : key.elsewhere) names.push_back("`" + name + "`");
    if (!names.empty()) text += format("| `{}` | {} |\n", key.path, join(names, ", "));
  }
  return text;
}

}  // namespace fourfold::config
