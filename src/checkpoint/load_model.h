// The parameters of a program filled from a stored model. Not a resumable run: load.h.
#pragma once

#include "checkpoint/state.h"
#include "checkpoint/stored_model.h"
#include "program/program.h"

namespace fourfold::checkpoint {

/// Fills what this rank holds of every parameter of the program, and of its average; what is padded
/// becomes 0. The model must hold exactly those tensors, with the same shapes and dtypes. Ranks
/// call it on their own, whatever their grid. Errors: UserError(no_checkpoint) that lists all
/// differences, one a line; then no parameter has been touched. Memory: one tensor.
void load_model(StoredModel& model, const program::Program& program, const BufferBytes& bytes_of);
/// The same check alone, for all parameters that the state has.
void require_fit(const StoredModel& model, const JobState& state);

}  // namespace fourfold::checkpoint
