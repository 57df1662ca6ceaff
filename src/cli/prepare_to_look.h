// Prepares the run that a command looks at, reads data where the model waits for them, and says
// which grid was chosen for `auto`. The choice itself is made elsewhere (job/settle.h,
// job/open_grid.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"
#include "job/job.h"

namespace fourfold::cli {

/// Settles the run for so many ranks, plans and compiles it. Where the configuration leaves an axis
/// of its grid open, it is chosen for them, or for those that `train` would have on this host, and
/// standard error says which it is. `machine`: a name or a file, in place of run.machine; empty:
/// run.machine. Errors: what job::settle, job::choose_grid and job::prepare throw.
job::Job prepare_to_look(const config::Config& config, std::optional<std::int64_t> ranks,
                         const compile::PassOptions& passes = {}, const std::string& machine = {});

/// Settles the run so; the serial program that its job must equal (job/specify.h). Errors: what
/// job::settle and job::choose_grid throw.
program::Job specify_to_look(const config::Config& config, std::optional<std::int64_t> ranks);

/// For commands whose ranks are not known before they start. Errors: UserError(bad_config) where an
/// axis of the grid is open.
void refuse_open_grid(const config::Config& config);

}  // namespace fourfold::cli
