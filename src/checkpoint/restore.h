// Brings a job back to a checkpoint: rank 0 chooses, all ranks load, and all agree on whether what
// they hold is what was saved.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "checkpoint/load.h"
#include "checkpoint/store.h"
#include "comm/world.h"

namespace fourfold::checkpoint {

/// What rank 0 found, on all ranks: they believe its manifest, not their own view of the folder.
/// All call it together; what others pass does not matter.
std::optional<Found> share(const std::optional<Found>& found, comm::World& world);

/// Errors: UserError(no_checkpoint) unless what all ranks have loaded, as load_state returns it,
/// has together the digests of the manifest: what was saved on one grid is what another one holds.
/// All ranks together, with the same result.
void check_digests(const Found& found, const Digests& loaded, comm::World* world);

/// What is said where no checkpoint of a folder will do; `problems` are lines, each begun with a
/// line end. Nothing that it advises removes anything.
std::string nothing_whole_in(const std::string& folder, const std::string& problems);

struct RestoreChoice {
  /// Where bytes are damaged: the newest checkpoint before it that is whole, instead of an error.
  bool may_fall_back = false;
  /// On rank 0: whether this run may continue from such an older one; throws otherwise. May be
  /// empty.
  std::function<void(const Manifest&)> check;
  /// On rank 0, for people: why a checkpoint was passed over, and what is loaded instead.
  std::function<void(const std::string&)> warn;
};

/// Loads `first`, or what the choice allows; all ranks together, with the same result. Returns what
/// was loaded. The store matters on rank 0 alone, its file system and patience on all. Errors:
/// those of check_fits; UserError(no_checkpoint) for the first damage, or where every checkpoint is
/// damaged, with each of them.
Found restore(Store& store, Found first, const RestoreChoice& choice,
              const program::Program& program, const BufferBytes& bytes_of, comm::World* world);

}  // namespace fourfold::checkpoint
