// The run directory of `train`: made the run's own once everything else has worked. What it holds
// before, and whether the run may have it: run_start.h.
#pragma once

#include <optional>

#include "checkpoint/store.h"
#include "cli/commands.h"
#include "cli/run_start.h"
#include "data/source.h"
#include "job/job.h"
#include "rundir/run_record.h"
#include "rundir/sessions.h"

namespace fourfold::cli {

/// The run's own checkpoints.
checkpoint::Store store_of(const config::Config& config);

/// Takes away what ended jobs left half-written and, where the run goes back, sets later saves,
/// metrics and weights aside in a line; then writes what describes the run and this start of it.
/// `origin`: the checkpoint whose state is loaded. Errors: UserError(storage).
rundir::Session open_run_directory(const TrainArguments& arguments, const job::Job& job,
                                   const data::Source& source, const rundir::JobFacts& facts,
                                   const RunStart& start,
                                   const std::optional<checkpoint::Found>& origin);

}  // namespace fourfold::cli
