// The start-up table: what a run is, at a glance.
#pragma once

#include <string>

#include "cli/job.h"

namespace fourfold::cli {

/// Model by part, batch equation, mesh, memory by class, work of a step; aligned lines.
std::string summary(const Job& job);

}  // namespace fourfold::cli
