// In what two configurations differ.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace fourfold::config {

struct Difference {
  std::string key;
  Origin left, right;
};

/// The keys whose values differ, in the order of the schema.
std::vector<Difference> differences(const Config& left, const Config& right);

}  // namespace fourfold::config
