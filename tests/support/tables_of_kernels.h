// Tables of kernels that name no library, so that a program shows whether it was compiled with one.
#pragma once

#include <regex>
#include <string>

namespace fourfold::test {

/// The table with all that libraries compute given to own loops.
inline std::string by_own_loops(const std::string& table) {
  return std::regex_replace(table, std::regex("by: [a-z_]+"), "by: vector");
}

}  // namespace fourfold::test
