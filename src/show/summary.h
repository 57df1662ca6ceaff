// What a run is, at a glance.
#pragma once

#include <string>

#include "base/rows.h"
#include "job/job.h"

namespace fourfold::show {

/// Model by part, batch equation, grid, memory by class, precision, work of a step, kernels.
Rows summary_rows(const job::Job& job);

/// Says which workspace the memory of a job leaves out, because no kernels were chosen or no GPU
/// answered; is empty where the memory leaves out nothing.
std::string uncounted_workspace(const job::Job& job);

}  // namespace fourfold::show
