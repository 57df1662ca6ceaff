// Priced grids as people and programs read them: `plan --machine`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "base/json.h"
#include "job/rank_plans.h"
#include "show/training_cost.h"

namespace fourfold::show {

/// The first `top` grids as a table of at most 100 columns, why the first one is first, what speed
/// costs in memory, what does not fit, what other methods would send, what a training would take
/// where that is asked, and the lines of a configuration for the first grid.
std::string ranking_text(const job::Ranking& ranking, std::size_t top,
                         const std::optional<TrainingCost>& cost = {});

/// Why one plan of the list is faster than another, with the times of both by class. Errors:
/// UserError(bad_config) where the list has no such rank; it counts from 1.
std::string explanation_text(const job::Ranking& ranking, std::int64_t a, std::int64_t b);

/// The same facts in seconds and bytes.
Json ranking_json(const job::Ranking& ranking, std::size_t top,
                  const std::optional<TrainingCost>& cost = {});

}  // namespace fourfold::show
