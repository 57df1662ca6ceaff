// One key's value: from a YAML node into a Config, and back to text. Not relations between keys
// (rules.h).
#pragma once

#include <optional>
#include <string>

#include "base/yaml.h"
#include "config/schema.h"

namespace fourfold::config {

/// Why a value is not stored: "model.num_layers: expected ...; got ...".
struct Rejection {
  std::string message;
  std::string hint;
  const YamlNode* where;  // the node, or the item of its list that is wrong
};

/// Checks type and bounds and stores the value.
std::optional<Rejection> store_value(const Key& key, const YamlNode& node, Config& config);

/// Stores the schema's default, if it does not follow from other keys.
void store_fallback(const Key& key, Config& config);

/// The value as YAML.
std::string value_text(const Key& key, Config& config);

}  // namespace fourfold::config
