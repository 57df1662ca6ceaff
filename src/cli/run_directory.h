// The run directory of `train`: from where a run goes on, room for it, and what describes it.
#pragma once

#include <optional>

#include "checkpoint/store.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/resume.h"
#include "cli/run_record.h"
#include "data/dataset.h"

namespace fourfold::cli {

/// The run's own checkpoints.
checkpoint::Store store_of(const config::Config& config);

/// From where the run goes on; nothing where it begins. For rank 0. Errors: those of resume.h;
/// UserError(output_in_use) for a run that is complete.
std::optional<ResumePoint> resume_point(const TrainArguments& arguments, const Job& job,
                                        const data::Dataset& dataset);

/// Refuses a directory that holds another run (UserError(output_in_use)), makes room for this one,
/// and writes what describes it. A run that ended before its first checkpoint makes way for one
/// that resumes what it finds ("auto"): whether one did.
bool open_run_directory(const TrainArguments& arguments, const Job& job,
                        const data::Dataset& dataset, const JobFacts& facts,
                        const std::optional<ResumePoint>& point);

}  // namespace fourfold::cli
