// class: whether two ranks of the same meshes run the same programs but for what follows from their
// coordinates.
#pragma once

#include <optional>
#include <string>

#include "verify/language.h"

namespace fourfold::verify {

/// The first difference that coordinates do not explain.
struct Difference {
  std::size_t program = 0;                 // index in the bundle
  std::optional<std::size_t> instruction;  // none: outside of the instructions
  std::string message;                     // "it is ..., but rank 0 has ..."
};
/// Nothing where the bundles are siblings. Values that may differ are not judged here (part, feeds,
/// groups, matching do). Cost: linear.
std::optional<Difference> difference(const Bundle& first, const Bundle& other);

}  // namespace fourfold::verify
