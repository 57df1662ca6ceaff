// A look at whether a folder can take a run's checkpoints, before the first step instead of at the
// first save.
#pragma once

#include <cstdint>
#include <string>

#include "base/file_system.h"

namespace fourfold::checkpoint {

/// Writes a small file, syncs, renames, reads it back and removes it. Errors: UserError(storage).
void probe_storage(FileSystem& files, const std::string& folder);

/// What a run is about to store.
struct StoragePlan {
  std::int64_t checkpoint_bytes = 0;
  std::int64_t checkpoints = 0;   // that are there at once: those that stay, and the next
  std::int64_t reused_bytes = 0;  // of what is there now and will go
  std::int64_t other_bytes = 0;
};
/// Errors: UserError(storage) where the folder's file system has less room.
void check_room(FileSystem& files, const std::string& folder, const StoragePlan& plan);

}  // namespace fourfold::checkpoint
