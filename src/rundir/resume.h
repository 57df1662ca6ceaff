// Finds the checkpoint from which a run continues. Not here: whether the configuration of the run
// allows it (job/resume_rules.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/restore.h"
#include "checkpoint/store.h"
#include "comm/world.h"

namespace fourfold::rundir {

/// What `--resume` says: "auto" continues the run of the run directory if it has checkpoints,
/// "never" does not, anything else is the path of a run directory, its folder of checkpoints, or
/// one checkpoint.
struct ResumeChoice {
  std::string how = "auto";
  std::vector<std::string> overrides;  // keys that may differ though they change what is learned
};

struct ResumePoint {
  checkpoint::Found found;
  std::vector<checkpoint::Refused> refused;  // newer ones that are damaged
  bool is_exact = false;                     // this one was named, and no other will do
};

/// Rank 0's, on all ranks, which call together; `world` is null where there is one.
std::optional<ResumePoint> share(const std::optional<ResumePoint>& point, comm::World* world);

/// For rank 0, which tells the others. Nothing: the run starts anew. Errors:
/// UserError(no_checkpoint) where there are only damaged ones, or none at the path that was named.
std::optional<ResumePoint> find_resume_point(const std::string& how, const std::string& run_dir);

/// Brings the state of the point to all ranks, which call together. Where its checkpoint is damaged
/// and the point names no exact step: the newest whole one before it that passes `choice.check`.
/// `own`: the run's own checkpoints. Returns what was loaded. Errors: those of checkpoint::restore.
checkpoint::Found restore(const ResumePoint& point, checkpoint::Store& own,
                          checkpoint::RestoreChoice choice, const program::Program& program,
                          const checkpoint::BufferBytes& bytes_of, comm::World* world);

}  // namespace fourfold::rundir
