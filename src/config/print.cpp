#include "config/print.h"

#include <algorithm>

#include "base/format.h"
#include "base/text.h"
#include "config/schema.h"
#include "config/suggest.h"
#include "config/value.h"

namespace fourfold::config {
namespace {

std::string example_of(const Key& key) {
  if (!key.fallback.empty() && key.fallback != "\"\"") return key.fallback;
  if (std::holds_alternative<Place<std::string>>(key.field)) return "my-text";
  return std::holds_alternative<Place<double>>(key.field) ? "1e-4" : "100";
}

std::string explain_key(const Key& key) {
  std::string text = format("{}\n  {}\n  type      {}\n  default   {}\n", key.path, key.meaning,
                            type_words(key), default_words(key));
  if (!key.unit.empty()) text += format("  unit      {}\n", key.unit);
  if (!key.elsewhere.empty()) text += format("  elsewhere {}\n", join(key.elsewhere, ", "));
  return text + format("  example   --set '{}={}'\n", key.path, example_of(key));
}

std::string explain_section(std::string_view section) {
  std::string text = format("{}\n", section);
  for (const Key& key : keys())
    if (section_of(key.path) == section)
      text += format("  {:<26} {}\n", leaf_of(key.path), key.meaning);
  return text;
}

}  // namespace

std::string resolved_yaml(const Config& config) {
  Config copy = config;  // places hand out references
  std::string text =
      "# Every setting of a run, defaults included: training from this file repeats it.\n";
  std::string_view section;
  for (const Key& key : keys()) {
    if (section_of(key.path) != section) {
      section = section_of(key.path);
      text += section.empty() ? "\n" : format("\n{}:\n", section);
    }
    const std::string unit = key.unit.empty() ? "" : format("  # {}", key.unit);
    text += format("{}{}: {}{}\n", section.empty() ? "" : "  ", leaf_of(key.path),
                   value_text(key, copy), unit);
  }
  return text;
}

std::string explain(std::string_view path) {
  if (const Key* key = find_key(path)) return explain_key(*key);
  const auto all = sections();
  if (std::find(all.begin(), all.end(), path) != all.end()) return explain_section(path);
  throw UserError(ExitCode::bad_config, format("unknown key '{}'; {}", path, suggest(path).text));
}

std::string keys_markdown() {
  std::string text = "| key | type | default | unit | meaning |\n|---|---|---|---|---|\n";
  for (const Key& key : keys())
    text += format("| `{}` | {} | {} | {} | {} |\n", key.path, type_words(key),
                   key.derived_words.empty() ? format("`{}`", key.fallback) : key.derived_words,
                   key.unit, key.meaning);
  return text;
}

}  // namespace fourfold::config
