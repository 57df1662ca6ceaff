// What to do about a grid that cannot work: which others can.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"

namespace fourfold::job {

/// "\n      nearest grids that work: parallel.tensor = {x: 2, y: 1, z: 1} with parallel.data = 4;
/// ...": up to three that differ least from the configured one, by the ratios of their axes, all
/// else as configured; of as many ranks where there are such, else of fewer. Empty where there is
/// none. `ranks`: of the job, where that is settled. Cost: a plan of one layer for each grid tried.
std::string nearest_grids(const config::Config& config, std::optional<std::int64_t> ranks);

}  // namespace fourfold::job
