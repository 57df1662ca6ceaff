// What a run is, at a glance.
#pragma once

#include "base/rows.h"
#include "job/job.h"

namespace fourfold::job {

/// Model by part, batch equation, grid, memory by class, precision, work of a step, kernels.
Rows summary_rows(const Job& job);

}  // namespace fourfold::job
