// The folders of runs, read for a page about them. Not the lines of metrics.jsonl (run_data.h), and
// nothing is drawn or written.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/run_data.h"

namespace fourfold::report {

/// Reads each folder as one run, in the order given; where two of one name lie in different
/// folders, all names end in their folders. What is missing, torn or damaged in a run becomes one
/// of its notes, or the remark of a checkpoint. Reads the metrics once and the manifests of all
/// checkpoints, but no tensor.
/// Errors: UserError(bad_data) for what is no folder, or is none of a run.
std::vector<Run> read_runs(std::span<const std::string> folders);

}  // namespace fourfold::report
