// A model's parameters as a safetensors file. Not optimizer state and not a resumable run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/state.h"
#include "checkpoint/stored_model.h"
#include "comm/world.h"
#include "program/program.h"

namespace fourfold::checkpoint {

/// Saves every buffer of role `parameter` under its name, logical shape and dtype. `metadata` comes
/// on top of default_metadata(). With a world of several ranks all call together; rank 0 puts the
/// tensors together and writes, which takes the memory of the whole model there. Without one, this
/// rank holds all parameters whole. Errors: UserError(storage).
void save_model(const std::string& path, const program::Program& program,
                const BufferReads& bytes_of, comm::World* world = nullptr,
                const Metadata& metadata = {});

/// The steps that a saved model has done, where its metadata has them as "step". Errors:
/// UserError(no_checkpoint) for a file that is no model.
std::optional<std::int64_t> step_of_model(const std::string& path);

/// Fills what this rank holds of every parameter of the program; what is padded becomes 0. The
/// model must hold exactly those tensors, with the same shapes and dtypes. Ranks call it on their
/// own, whatever their grid. Errors: UserError(no_checkpoint) that lists all differences, one a
/// line; then no parameter has been touched. Memory: one tensor.
void load_model(StoredModel& model, const program::Program& program, const BufferBytes& bytes_of);
/// The same check alone.
void require_fit(const StoredModel& model, const program::Program& program);
/// Of one file.
void load_model(const std::string& path, const program::Program& program,
                const BufferBytes& bytes_of);

}  // namespace fourfold::checkpoint
