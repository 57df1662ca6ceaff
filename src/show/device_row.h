// What a job computes on, as a row of the start-up table.
#pragma once

#include "base/rows.h"
#include "job/job.h"

namespace fourfold::show {

/// The device, with what the job wants of its memory, or why it is not a GPU where one might be
/// expected.
Row device_row(const job::Job& job);

}  // namespace fourfold::show
