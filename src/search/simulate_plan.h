// One plan compiled and simulated: its time and its bytes. A pipeline of many micro-batches is
// compiled with few, as its middle repeats itself. Not which plans are worth that
// (simulate_best.h).
#pragma once

#include <cstdint>

#include "plan/plan_spec.h"
#include "search/rank_grids.h"

namespace fourfold::search {

/// Both regions of the rank that has most.
std::int64_t bytes_of_rank(const program::Job& job);

/// Compiles a plan for all ranks and simulates its training step on the question's cluster. Where
/// it needs more than `memory_bytes` and its memory is not limited, it is compiled again within
/// that, and the spec says so. Cost: compiling, and n log n in instructions.
Simulated simulate_whole(const Question& question, plan::PlanSpec& spec, double memory_bytes);

/// The same for a pipeline of many micro-batches from the programs of few: as many as keep as much
/// in flight as all of them do, and show a cycle (simulate::find_cycle). All are compiled where
/// fewer show none, where all forward tasks come first, so that memory grows with their number, and
/// where a delay of the weights' part is chosen for it.
/// Time equals that of simulate_whole within a hundredth, and memory too.
Simulated simulate_plan(const Question& question, plan::PlanSpec& spec, double memory_bytes);

}  // namespace fourfold::search
