// `parallel.tensor: auto`, and stages that are `auto`, for the commands: the grid is chosen, and
// that is said. Not how it is chosen (job/open_grid.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/config.h"

namespace fourfold::cli {

/// Where the configuration leaves an axis of its grid open, settles it for so many ranks, or for
/// those that `train` would have on this host, and says on standard error which it is. `machine`: a
/// name or a file, in place of run.machine; empty: that. Requires a settled model. Returns the
/// number of ranks where it chose them.
std::optional<std::int64_t> settle_open_grid(config::Config& config,
                                             std::optional<std::int64_t> ranks,
                                             const std::string& machine = {});

/// For commands whose ranks are not known before they start. Errors: UserError(bad_config) where an
/// axis of the grid is open.
void refuse_open_grid(const config::Config& config);

}  // namespace fourfold::cli
