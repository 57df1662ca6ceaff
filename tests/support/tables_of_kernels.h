// Tables of kernels that name no library, so that a program shows whether it was compiled with one.
#pragma once

#include <string>

#include "support/pattern.h"

namespace fourfold::test {

/// The table with all that libraries compute given to own loops.
inline std::string by_own_loops(const std::string& table) {
  return Pattern("by: [a-z_]+").replaced_in(table, "by: vector");
}

}  // namespace fourfold::test
