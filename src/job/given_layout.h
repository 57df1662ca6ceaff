// The file of parallel.layout: what is in it, and how a layout is written there. Not what a layout
// means (plan/layout_text.h).
#pragma once

#include <optional>
#include <string>

#include "config/config.h"
#include "job/job.h"

namespace fourfold::job {

/// What the configuration gives: the text that it has, or that of its file; none where it names no
/// file. Errors: UserError(bad_config) where the file is not there.
std::optional<plan::GivenLayout> given_layout(const config::Config& config);

/// The layout of a job on one mesh, as a file has it. Errors: UserError(bad_config) for a model in
/// stages.
std::string layout_text(const PlannedRun& run);

}  // namespace fourfold::job
