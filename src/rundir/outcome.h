// What a script that starts runs again must know of one: whether it began, how far it came, and
// whether anything is left to do. Not how each rank ended (the folder status/ of the run).
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "comm/launcher.h"

namespace fourfold::rundir {

/// Writes to the file that the variable FOURFOLD_OUTCOME names, where it names one:
/// {"state":"running","step":120,"steps":2000}. A file that is not there after a start says that no
/// rank began, "starting" that no training did.
class Outcome {
 public:
  explicit Outcome(const comm::Variable& variable);

  /// The first rank is there, and listens to signals.
  void start() const { write("starting", 0, 0); }
  /// The state is there, and so many steps are done.
  void begin(std::int64_t step, std::int64_t steps) const { write("running", step, steps); }
  /// Asked to stop; the same command goes on.
  void stopped(std::int64_t step, std::int64_t steps) const { write("stopped", step, steps); }
  /// The command has done all that it was asked to do.
  void done(std::int64_t step, std::int64_t steps) const { write("done", step, steps); }
  /// The run has heard that it is to stop: an empty file beside the other one, NAME.heard, so that
  /// nobody asks again, which would end it at once. From any thread.
  void heard() const noexcept;
  /// The job has ended with this code, which a launcher that kills its other ranks does not tell.
  /// `host`: where the rank was that was lost or late; empty: no rank is at fault. For whoever
  /// speaks for the job: says nothing where it cannot be written.
  void failed(ExitCode code, const std::string& host) const noexcept;

 private:
  /// Errors: UserError(storage).
  void write(const char* state, std::int64_t step, std::int64_t steps) const;

  std::string path_;  // empty: nobody asks
};

}  // namespace fourfold::rundir
