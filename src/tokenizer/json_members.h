// Members of the parts of a tokenizer.json, which may be missing or null.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace fourfold::tokenizer {

/// A tokenizer that there is not here: thrown and caught where a file is read, which returns the
/// reason as a value.
struct Unlike {
  std::string reason;
};

/// The member; nothing where there is none, and where it is null.
inline const Json* member(const Json& json, const char* key) {
  const Json* value = json.find(key);
  return value == nullptr || value->kind() == Json::Kind::null ? nullptr : value;
}

inline std::string text_of(const Json& json, const char* key) {
  const Json* value = member(json, key);
  return value != nullptr && value->kind() == Json::Kind::string ? value->as_string() : "";
}

inline bool is_true(const Json& json, const char* key, bool otherwise) {
  const Json* value = member(json, key);
  return value != nullptr && value->kind() == Json::Kind::boolean ? value->as_bool() : otherwise;
}

inline std::string type_of(const Json* part) {
  return part == nullptr ? "" : text_of(*part, "type");
}

/// The items of a list; none where there is none.
inline const std::vector<Json>& items_at(const Json& json, const char* key) {
  static const std::vector<Json> none;
  const Json* list = member(json, key);
  return list != nullptr && list->kind() == Json::Kind::array ? list->items() : none;
}

}  // namespace fourfold::tokenizer
