// The lines of metrics.jsonl, by the step that they tell of. Who writes them: train/metrics.h.
#pragma once

#include <cstdint>
#include <string>

namespace fourfold::rundir {

/// The lines of later steps than `last_step`. Without a file: nothing. Errors: UserError(storage).
std::string metrics_after(const std::string& path, std::int64_t last_step);
/// Takes them out of the file, for a run that goes on from there. A line that is torn goes too; any
/// other object without a step stays. Without a file: nothing. Errors: UserError(storage).
void cut_metrics(const std::string& path, std::int64_t last_step);

}  // namespace fourfold::rundir
