// What a run will do in its folder: found out, with every check that can be made, before anything
// is written there. What is written then: open.h.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/screen.h"
#include "checkpoint/manifest.h"
#include "checkpoint/store.h"
#include "rundir/resume.h"
#include "rundir/run_lock.h"

namespace fourfold::rundir {

/// What a run wants of its folder.
struct StartRequest {
  std::string dir;          // run.dir
  std::string how;          // ResumeChoice::how
  bool overwrites = false;  // an earlier run there may go
  bool is_dry = false;      // not even a probe is written
  LockHolder holder;
  std::int64_t weights_bytes = 0;     // that the end will write
  std::int64_t checkpoint_bytes = 0;  // of one checkpoint; 0: none is saved
  std::int64_t checkpoints_kept = 0;
  /// Throws UserError where the run may not go on from there; the flag: the checkpoint is the run's
  /// own.
  std::function<void(const ResumePoint&, bool)> check_point;
  /// Throws UserError where the run may not go on from another checkpoint, an older one in the
  /// folder of that which was found damaged.
  std::function<void(const checkpoint::Manifest&)> check_older;
  /// Throws UserError where the run cannot begin without a checkpoint.
  std::function<void()> check_beginning;
};

struct RunStart {
  std::optional<ResumePoint> point;  // the checkpoint that it goes on from; none: it begins
  bool is_own = false;               // that lies in the run's own folder; what is there stays
  bool begins_anew = false;  // what is there was left by a run that ended before it saved anything
  bool overwrites = false;   // what is there goes
  /// Why weights that lie in the folder are not those of the checkpoint, or not whole.
  std::optional<std::string> weights_fault = {};
};

/// For rank 0, which holds the folder. Errors: those of resume.h and of the request's checks;
/// UserError(output_in_use) for a folder that holds another run or weights; UserError(storage)
/// where the folder cannot take the run.
RunStart plan_start(const StartRequest& request);

/// For a dry run: reads every byte of the checkpoint, and says which would be passed over. Errors:
/// UserError(no_checkpoint) where no other will do.
void check_bytes(const StartRequest& request, const ResumePoint& point, Screen& screen);

/// The run's own checkpoints.
checkpoint::Store store_of(const std::string& dir);

/// True if the weights at the end of a run of so many steps lie in its folder, all files of them
/// whole.
bool has_final_weights(const std::string& dir, std::int64_t step);

/// The names of files that a job which was killed may have left half-written.
bool is_leftover(const std::string& name);

}  // namespace fourfold::rundir
