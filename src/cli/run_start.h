// What a `train` will do in its folder: found out, with every check that can be made, before
// anything is written there. What is written then: run_directory.h.
#pragma once

#include <optional>
#include <string>

#include "base/screen.h"
#include "cli/commands.h"
#include "data/source.h"
#include "job/job.h"
#include "rundir/resume.h"

namespace fourfold::cli {

struct RunStart {
  std::optional<rundir::ResumePoint> point;  // the checkpoint that it goes on from; none: it begins
  bool is_own = false;       // that lies in the run's own folder; what is there stays
  bool begins_anew = false;  // what is there was left by a run that ended before it saved anything
  bool overwrites = false;   // what is there goes
};

/// For rank 0, which holds the folder. Errors: those of resume.h; UserError(no_checkpoint) where
/// the checkpoint does not fit the model; UserError(output_in_use) for a run that is complete, or a
/// folder that holds another run or weights; UserError(storage) where the folder cannot take the
/// run.
RunStart plan_start(const TrainArguments& arguments, const job::Job& job,
                    const data::Source& source);

/// Of a dry run: reads every byte of the checkpoint, and says which would be passed over. Errors:
/// UserError(no_checkpoint) where no other will do.
void check_bytes(const TrainArguments& arguments, const job::Job& job, const data::Source& source,
                 const rundir::ResumePoint& point, Screen& screen);

/// The names of files that a job which was killed may have left half-written.
bool is_leftover(const std::string& name);

/// Whether all steps are done at that step, as the configuration has it.
bool is_over(const checkpoint::Manifest& manifest, const config::Config& config);

}  // namespace fourfold::cli
