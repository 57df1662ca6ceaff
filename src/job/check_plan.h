// What `config check` looks at beyond the keys. Not the keys: config/rules.h.
#pragma once

#include <functional>
#include <string>

#include "config/config.h"

namespace fourfold::job {

/// Finds what only a plan shows, such as heads that do not divide, and of a pipeline also what only
/// its programs show, that its ranks come to the end of a step; needs the data where the
/// configuration leaves something of the model open to them. `note` is told what is not checked,
/// and which files are missing. Errors: what settle and prepare throw.
void check_plan(const config::Config& config, const std::function<void(const std::string&)>& note);

}  // namespace fourfold::job
