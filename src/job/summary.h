// What a run is, at a glance.
#pragma once

#include <string>

#include "base/rows.h"
#include "job/job.h"

namespace fourfold::job {

/// Model by part, batch equation, grid, memory by class, precision, work of a step, kernels.
Rows summary_rows(const Job& job);

/// What the memory of a job that is only looked at leaves out, because no kernels were chosen or no
/// GPU was there to ask; empty: nothing.
std::string uncounted_workspace(const Job& job);

}  // namespace fourfold::job
