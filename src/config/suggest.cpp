#include "config/suggest.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "config/schema.h"

namespace fourfold::config {
namespace {

/// Compared without capitals and with '_' for '-'.
bool same_name(std::string_view a, std::string_view b) {
  const auto folded = [](char letter) {
    if (letter >= 'A' && letter <= 'Z') return static_cast<char>(letter - 'A' + 'a');
    return letter == '-' ? '_' : letter;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return folded(x) == folded(y); });
}

struct Absent {
  std::string_view name, hint;
};

/// Things that other tools configure and that no key here does.
constexpr std::string_view one_rank = "training runs on one rank; leave it out";
constexpr std::array<Absent, 14> absent = {{
    {"parallel", one_rank},
    {"tensor_model_parallel_size", one_rank},
    {"tensor_parallel_degree", one_rank},
    {"pipeline_model_parallel_size", one_rank},
    {"pipeline_parallel_degree", one_rank},
    {"data_parallel_size", one_rank},
    {"G_intra_r", one_rank},
    {"G_intra_c", one_rank},
    {"G_intra_d", one_rank},
    {"G_inter", one_rank},
    {"G_data", one_rank},
    {"gradient_accumulation_steps", "it follows: train.global_batch_size / train.micro_batch_size"},
    {"grad_accumulation", "it follows: train.global_batch_size / train.micro_batch_size"},
    {"extends", "give several files on the command line: they merge from left to right"},
}};

Suggestion did_you_mean(std::string_view path) {
  return {format("did you mean '{}'?", path), std::string(path)};
}

std::optional<Suggestion> from_other_tools(std::string_view path) {
  for (const auto name : {path, leaf_of(path)})
    for (const Key& key : keys())
      for (const std::string& other : key.elsewhere)
        if (same_name(name, other)) return did_you_mean(key.path);
  for (const auto name : {path.substr(0, path.find('.')), leaf_of(path)})
    for (const Absent& entry : absent)
      if (same_name(name, entry.name)) return Suggestion{std::string(entry.hint), ""};
  return std::nullopt;
}

std::optional<Suggestion> same_leaf_elsewhere(std::string_view leaf) {
  for (const Key& key : keys())
    if (same_name(leaf_of(key.path), leaf)) return did_you_mean(key.path);
  return std::nullopt;
}

/// What may stand in a section: leaves; at the top: sections and top-level keys.
std::vector<std::string> names_in(std::string_view section) {
  std::vector<std::string> names;
  if (section.empty()) names = sections();
  for (const Key& key : keys())
    if (section_of(key.path) == section) names.emplace_back(leaf_of(key.path));
  return names;
}

std::optional<Suggestion> near_miss(std::string_view path) {
  const std::string_view section = section_of(path);
  if (const auto leaf = nearest(leaf_of(path), names_in(section)))
    return did_you_mean(section.empty() ? *leaf : format("{}.{}", section, *leaf));
  std::vector<std::string> leaves, paths;
  for (const Key& key : keys()) {
    leaves.emplace_back(leaf_of(key.path));
    paths.push_back(key.path);
  }
  if (const auto meant = nearest(path, paths)) return did_you_mean(*meant);
  if (const auto leaf = nearest(leaf_of(path), leaves)) return same_leaf_elsewhere(*leaf);
  return std::nullopt;
}

}  // namespace

std::string names_in_words(std::string_view section) {
  return format("{} has: {}", section.empty() ? "the top level" : format("section '{}'", section),
                join(names_in(section), ", "));
}

Suggestion suggest(std::string_view path) {
  if (const auto found = from_other_tools(path)) return *found;
  if (const auto found = same_leaf_elsewhere(leaf_of(path))) return *found;
  if (const auto found = near_miss(path)) return *found;
  const auto all = sections();
  const bool known = std::find(all.begin(), all.end(), section_of(path)) != all.end();
  return {names_in_words(known ? section_of(path) : std::string_view()), ""};
}

}  // namespace fourfold::config
