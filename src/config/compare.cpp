#include "config/compare.h"

#include "config/value.h"

namespace fourfold::config {

Origin value_of(const Key& key, const Config& config) {
  Config copy = config;  // places hand out references
  const std::string value = value_text(key, copy);
  const Origin* origin = config.origins.find(key.path);
  const bool is_as_loaded = origin != nullptr && origin->value == value;
  return {is_as_loaded ? origin->place : "derived", value};
}

std::vector<Difference> differences(const Config& left, const Config& right) {
  std::vector<Difference> result;
  for (const Key& key : keys()) {
    Origin a = value_of(key, left), b = value_of(key, right);
    if (a.value != b.value) result.push_back({key.path, std::move(a), std::move(b)});
  }
  return result;
}

}  // namespace fourfold::config
