// Letters, numbers and white space of Unicode 16.0. Not more of Unicode than tokenizers ask for.
#pragma once

#include <cstdint>
#include <vector>

namespace fourfold::data {

/// General categories L* and N*, and the property White_Space: \p{L}, \p{N} and \s of regular
/// expressions.
enum class CharacterClass : std::uint8_t { other = 0, letter = 1, number = 2, space = 3 };

/// A byte for each code point, 1.1 MB, made at the first call.
const std::vector<CharacterClass>& character_classes();

}  // namespace fourfold::data
