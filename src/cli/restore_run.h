// The state from which a run goes on, brought to all of its ranks.
#pragma once

#include "base/screen.h"
#include "checkpoint/restore.h"
#include "cli/commands.h"
#include "comm/world.h"
#include "data/source.h"
#include "job/job.h"
#include "run/executor.h"
#include "rundir/resume.h"

namespace fourfold::cli {

/// Loads the checkpoint of the point, or, where it is damaged and the point names no exact step,
/// the newest whole one before it, from which the run must be allowed to continue. All ranks
/// together; `store` is the run's own. Returns what was loaded. Errors: those of
/// checkpoint::restore.
checkpoint::Found restore_run(const TrainArguments& arguments, const job::Job& job,
                              const data::Source& source, const rundir::ResumePoint& point,
                              checkpoint::Store& store, run::Executor& executor, comm::World* world,
                              Screen& screen);

}  // namespace fourfold::cli
