// What two plans of a list do otherwise, op by op and collective by collective, for people.
#pragma once

#include <cstdint>
#include <string>

#include "job/rank_plans.h"

namespace fourfold::show {

/// The ops that two plans of one mesh cut in another way, and the collectives of which one has
/// more, each with the time that it takes on both sides; those that differ most, and how many more
/// there are. Empty for pipelines. `a` and `b`: places of the list, from 1 on.
std::string difference_text(const job::Ranking& ranking, std::size_t a, std::size_t b);

}  // namespace fourfold::show
