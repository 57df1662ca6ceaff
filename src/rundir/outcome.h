// What a script that starts runs again must know of one: whether it began, how far it came, and
// whether anything is left to do. Not how each rank ended (the folder status/ of the run).
#pragma once

#include <cstdint>
#include <string>

#include "comm/launcher.h"

namespace fourfold::rundir {

/// Writes to the file that the variable FOURFOLD_OUTCOME names, where it names one:
/// {"state":"running","step":120,"steps":2000}. A file that is not there after a start says that no
/// training began.
class Outcome {
 public:
  explicit Outcome(const comm::Variable& variable);

  /// The state is there, and so many steps are done.
  void begin(std::int64_t step, std::int64_t steps) const { write("running", step, steps); }
  /// Asked to stop; the same command goes on.
  void stopped(std::int64_t step, std::int64_t steps) const { write("stopped", step, steps); }
  /// The command has done all that it was asked to do.
  void done(std::int64_t step, std::int64_t steps) const { write("done", step, steps); }

 private:
  /// Errors: UserError(storage).
  void write(const char* state, std::int64_t step, std::int64_t steps) const;

  std::string path_;  // empty: nobody asks
};

}  // namespace fourfold::rundir
