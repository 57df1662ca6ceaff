// The weights that run.init_from names, in the place of random ones.
#pragma once

#include "data/source.h"
#include "job/job.h"
#include "run/executor.h"

namespace fourfold::training_run {

/// Before anything is written: the model is there, fits this one, and its tokens are those of the
/// data. Without run.init_from: nothing. Errors: UserError(no_checkpoint) with all differences;
/// UserError(bad_data) for other tokens.
void check_initial_model(const job::Job& job, const data::Source& source);

/// Fills this rank's parameters. Ranks call it on their own.
void load_initial_model(const job::Job& job, run::Executor& executor);

}  // namespace fourfold::training_run
