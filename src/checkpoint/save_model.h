// The parameters of a job written as a model, by its ranks together. Not optimizer state and not a
// resumable run: save.h.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/safetensors_header.h"
#include "checkpoint/state.h"
#include "comm/world.h"
#include "program/program.h"

namespace fourfold::checkpoint {

/// How the files of a model are cut, and what they say.
struct ModelFileSpec {
  /// A model that is larger gets several files and an index; a tensor that is larger has a file of
  /// its own.
  std::int64_t max_file_bytes = INT64_MAX;
  Metadata metadata = {};  // comes on top of default_metadata()
  /// The most bytes of a tensor of other ranks that a rank holds at one time while it writes that
  /// tensor.
  std::int64_t piece_bytes = std::int64_t{8} << 20;
};

/// Saves every parameter, or its average where there is one, under the parameter's name, logical
/// shape and dtype to the model files of `folder`, and removes those of an earlier model. With a
/// world all ranks call together, and the files are written side by side, each by a rank of its own
/// where there are enough; the bytes are those that one rank would write. A single file is replaced
/// whole or not at all; of several, the index goes first and comes last. Memory: no rank takes more
/// than two pieces. `bytes_of` is asked for what the mesh of this rank has. Errors:
/// UserError(storage).
void save_model(const std::string& folder, const JobState& state, const BufferReads& bytes_of,
                comm::World* world = nullptr, const ModelFileSpec& spec = {});

}  // namespace fourfold::checkpoint
