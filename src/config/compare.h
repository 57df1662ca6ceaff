// In what two configurations differ.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/schema.h"

namespace fourfold::config {

struct Difference {
  std::string key;
  Origin left, right;
};

/// The value that a key has, and where it comes from: "derived" where it is no longer the one that
/// was loaded.
Origin value_of(const Key& key, const Config& config);

/// The keys whose values differ, in the order of the schema.
std::vector<Difference> differences(const Config& left, const Config& right);

}  // namespace fourfold::config
