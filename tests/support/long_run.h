// Tests that take minutes run where this is true: `scripts/test --all` sets FOURFOLD_LONG.
#pragma once

#include <cstdlib>

namespace fourfold {

inline bool is_long_run() {
  return std::getenv("FOURFOLD_LONG") != nullptr;
}

}  // namespace fourfold
