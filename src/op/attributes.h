// The attributes of a row, listed once: printing, parsing, hashing and comparing visit that list.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace fourfold::op {

/// A list of numbers as an attribute: one for each channel, say.
using Numbers = std::vector<double>;

/// States that these members are the attributes of a struct, in the order in which texts have them:
/// with_attributes(visit) is visit(each of them...). No tuple of them is returned, as its type
/// would be made in every file that knows the struct.
#define FOURFOLD_ATTRIBUTES(...)                                    \
  static constexpr std::string_view attribute_names = #__VA_ARGS__; \
  template <class Visit>                                            \
  void with_attributes(Visit&& visit) {                             \
    visit(__VA_ARGS__);                                             \
  }                                                                 \
  template <class Visit>                                            \
  void with_attributes(Visit&& visit) const {                       \
    visit(__VA_ARGS__);                                             \
  }

/// Calls `visit(name, attribute)` for each attribute of a row.
template <class Row, class Visit>
void for_each_attribute(Row& row, Visit&& visit) {
  [[maybe_unused]] std::string_view names = Row::attribute_names;
  const auto next = [&] {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 2));  // a comma and a space
    return name;
  };
  row.with_attributes([&](auto&... attribute) { (visit(next(), attribute), ...); });
}

}  // namespace fourfold::op
