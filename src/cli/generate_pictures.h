// `fourfold generate` for a run that makes pictures.
#pragma once

#include "cli/commands.h"
#include "rundir/trained_model.h"

namespace fourfold::cli {

/// Writes the files that the arguments name: at least one of a sheet and a folder. Errors:
/// UserError(output_in_use) where one is there already, before anything is computed.
void generate_pictures(const GenerateArguments& arguments, const rundir::TrainedModel& model);

}  // namespace fourfold::cli
