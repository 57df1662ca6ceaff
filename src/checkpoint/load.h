// Loads a checkpoint into the memory of one rank, whatever grid saved it and whatever grid loads.
#pragma once

#include "base/file_system.h"
#include "checkpoint/state.h"
#include "checkpoint/store.h"

namespace fourfold::checkpoint {

/// Errors: UserError(no_checkpoint) with all differences, one a line, unless the checkpoint holds
/// exactly this state, with the same shapes and dtypes; it may hold more of a job that has more.
void check_fits(const Found& found, const JobState& state);

/// Fills every tensor of the program's state; what is padded becomes 0. Each byte that is read is
/// checked against its hash. Returns the digests of the parts that this rank owns, of the memory as
/// it was filled: their sum over all ranks is that of the tensors. Ranks call it on their own. A
/// file that is not seen yet is waited for `patience_s`. Errors: those of check_fits, before
/// anything was touched; UserError(no_checkpoint) for damage, after which the state is of no use.
Digests load_state(FileSystem& files, const Found& found, const program::Program& program,
                   const BufferBytes& bytes_of, double patience_s = 0);

/// Reads every byte of a checkpoint, and compares all hashes and the digest of each tensor. Errors:
/// UserError(no_checkpoint) for the first that differs. Memory: one slice.
void verify(FileSystem& files, const Found& found);

}  // namespace fourfold::checkpoint
