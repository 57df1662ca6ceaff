#include "data/unicode_classes.h"

#include <algorithm>
#include <iterator>

#include "data/unicode_ranges.h"

namespace fourfold::data {
namespace {

std::vector<CharacterClass> make_classes() {
  std::vector<CharacterClass> classes(0x110000);
  for (std::size_t i = 0; i < std::size(unicode_ranges); ++i) {
    const std::size_t begin = unicode_ranges[i] / 4;
    const bool is_last = i + 1 == std::size(unicode_ranges);
    const std::size_t end = is_last ? classes.size() : unicode_ranges[i + 1] / 4;
    std::fill(classes.begin() + static_cast<std::ptrdiff_t>(begin),
              classes.begin() + static_cast<std::ptrdiff_t>(end),
              static_cast<CharacterClass>(unicode_ranges[i] % 4));
  }
  return classes;
}

}  // namespace

const std::vector<CharacterClass>& character_classes() {
  static const std::vector<CharacterClass> classes = make_classes();
  return classes;
}

}  // namespace fourfold::data
