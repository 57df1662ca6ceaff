// A model's parameters as a safetensors file. Not optimizer state and not a resumable run.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "checkpoint/safetensors_header.h"
#include "program/program.h"

namespace fourfold::checkpoint {

/// The memory of a buffer of the program, wherever it is.
using BufferBytes = std::function<std::span<std::byte>(const program::Buffer&)>;

/// Saves every buffer of role `parameter` under its name, logical shape and dtype. `metadata` comes
/// on top of default_metadata(). Requires that this rank holds all parameters whole. Errors:
/// UserError(storage).
void save_model(const std::string& path, const program::Program& program,
                const BufferBytes& bytes_of, const Metadata& metadata = {});

/// Fills every parameter of the program. The file must hold exactly those tensors, with the same
/// shapes and dtypes. Errors: UserError(no_checkpoint) that lists all differences, one a line; then
/// no parameter has been touched.
void load_model(const std::string& path, const program::Program& program,
                const BufferBytes& bytes_of);

}  // namespace fourfold::checkpoint
