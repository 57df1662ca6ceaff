// What a run is, at a glance.
#pragma once

#include "base/rows.h"
#include "cli/job.h"

namespace fourfold::cli {

/// Model by part, batch equation, grid, memory by class, precision, work of a step, kernels.
Rows summary_rows(const Job& job);

}  // namespace fourfold::cli
