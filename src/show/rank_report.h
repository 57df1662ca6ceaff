// What is shown of the ranks of a job, and what is thought of it: one table for people, and lines
// that say what to do. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/rank_facts.h"

namespace fourfold::show {

/// A row for each rank, then which GPU of a host reaches which, and NCCL's ways. `ranks` has one at
/// least.
std::string rank_table(std::span<const measure::RankFacts> ranks);

/// One line for each thing that should be looked at, with what to do; none where all is well.
std::vector<std::string> rank_warnings(std::span<const measure::RankFacts> ranks);

}  // namespace fourfold::show
