#include "config/template.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "config/config.h"
#include "config/family.h"
#include "config/print.h"
#include "config/schema.h"
#include "config/value.h"

namespace fourfold::config {
namespace {

/// A size, and the family of its model.
struct Found {
  model::Kind kind;
  const TemplateSize* size;
};

/// `file` names the run, as it does where it is loaded.
Config config_of(const Found& found, const std::string& file, std::vector<std::string>& chosen) {
  std::vector<std::string> sets;
  if (found.kind != model::Kind()) {  // the default
    chosen.emplace_back("model.kind");
    sets.push_back("model.kind=" + kind_word(found.kind));
  }
  for (const auto& [key, value] : found.size->settings) {
    chosen.emplace_back(key);
    sets.push_back(format("{}={}", key, value));
  }
  return load(std::array{file}, sets, [](const std::string&) { return std::string("run:\n"); });
}

Found find_size(std::string_view name) {
  for (const model::Kind kind : model::kinds)
    for (const TemplateSize& size : family_schema(kind).sizes)
      if (size.name == name) return {kind, &size};
  throw UserError(ExitCode::bad_config, format("there is no size '{}'; choose one of {}", name,
                                               join(template_sizes(model::Kind()), ", ")));
}

/// Words in comment lines of at most 100 columns.
std::string comment(const std::string& indent, std::string_view words) {
  constexpr std::size_t most_columns = 100;
  std::string text, line = indent + "#";
  for (const std::string& word : split(words, ' ')) {
    if (line.size() + 1 + word.size() > most_columns) {
      text += line + "\n";
      line = indent + "#";
    }
    line += " " + word;
  }
  return text + line + "\n";
}

/// Meaning and cost stand above a key, type and default after it.
std::string key_lines(const Key& key, Config& config, bool is_chosen) {
  const std::string indent = indent_of(key.path);
  std::string text = comment(indent, key.meaning);
  if (!key.cost.empty()) text += comment(indent, "Cost: " + key.cost);
  const bool follows = !key.derived_words.empty() && !is_chosen;
  const std::string unit = key.unit.empty() ? "" : format(" ({})", key.unit);
  return text + format("{}{}{}: {}  # {}{}; default: {}\n", indent, follows ? "# " : "",
                       leaf_of(key.path), value_text(key, config), type_words(key), unit,
                       default_words(key));
}

}  // namespace

std::vector<std::string> template_sizes(model::Kind kind) {
  std::vector<std::string> names;
  for (const TemplateSize& size : family_schema(kind).sizes) names.emplace_back(size.name);
  return names;
}

std::string template_sizes_text() {
  std::string text;
  for (const model::Kind kind : model::kinds) {
    const std::string sizes = join(template_sizes(kind), ", ");
    if (sizes.empty()) continue;
    text += text.empty() ? format("{} (default: {})", sizes, family_schema(kind).usual_size)
                         : format("; of a {} {}", kind_word(kind), sizes);
  }
  return text;
}

std::int64_t template_vocabulary(std::string_view name) {
  return find_size(name).size->vocabulary;
}

std::string template_yaml(std::string_view name, std::string_view file) {
  const Found found = find_size(name);
  std::vector<std::string> chosen;
  Config config = config_of(found, std::string(file), chosen);
  std::string text = comment("", format("A {} of {} parameters. Sizes: {}.", config.family().title,
                                        name, found.size->source));
  text += "#\n";
  text += format("#   fourfold train {}\n", file);
  text += "#\n";
  text += comment("",
                  "Begin with data.path. A line that begins with '# ' and a key shows what "
                  "follows from other keys; remove the '# ' to fix another value.");
  std::string_view before;
  for (const Key& key : keys()) {
    if (!applies(key, config)) continue;
    for (const std::string& line : opening_lines(key.path, before)) text += line + "\n";
    const bool is_chosen = std::find(chosen.begin(), chosen.end(), key.path) != chosen.end();
    text += key_lines(key, config, is_chosen);
    before = key.path;
  }
  return text;
}

TemplateName template_named(const std::string& model, const std::optional<std::string>& size) {
  const auto kind = kind_named(model);
  if (!kind || template_sizes(*kind).empty()) {
    std::vector<std::string> options;
    for (const model::Kind one : model::kinds)
      if (!template_sizes(one).empty()) options.push_back("--model " + kind_word(one));
    const std::string_view file = kind ? family_schema(*kind).example_file : "";
    throw UserError(
        ExitCode::bad_config,
        format("there is no template of a '{}'; choose {}{}", model, join(options, " or "),
               file.empty() ? std::string() : format(", or begin with {}", file)));
  }
  const std::vector<std::string> sizes = template_sizes(*kind);
  std::string asked = size.value_or(std::string(family_schema(*kind).usual_size));
  if (std::ranges::find(sizes, asked) == sizes.end())
    throw UserError(ExitCode::bad_config, format("there is no size '{}' of a {}; choose one of {}",
                                                 asked, model, join(sizes, ", ")));
  return {*kind, std::move(asked)};
}

}  // namespace fourfold::config
