// What speed costs in memory: the plans of a list as a chart made of letters.
#pragma once

#include <string>

#include "search/rank_grids.h"

namespace fourfold::show {

/// Plans that by formula no other one beats in both time and memory, fastest first, by place in the
/// list.
std::vector<std::size_t> front_of(const search::Answer& answer);

/// At most 100 columns and 16 lines of ASCII: the time of a step upwards, the memory of a rank to
/// the right; '*' for plans of the front, '.' for others. Plans beyond twice the least time are
/// left out. Empty for fewer than two plans, or where all take the same of one of the two.
std::string front_chart(const search::Answer& answer);

}  // namespace fourfold::show
