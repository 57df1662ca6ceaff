// `fourfold eval` for a run that makes pictures.
#pragma once

#include "cli/commands.h"
#include "rundir/trained_model.h"

namespace fourfold::cli {

/// Prints the bound on the bits of pictures.
void eval_pictures(const EvalArguments& arguments, const rundir::TrainedModel& model);

}  // namespace fourfold::cli
