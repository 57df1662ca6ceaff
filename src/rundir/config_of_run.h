// The file of a run's configuration, where a folder is named in its place.
#pragma once

#include <string>

namespace fourfold::rundir {

/// The configuration of the run in a folder, to be looked at. Errors: UserError(bad_config) where
/// it holds no run.
std::string config_of_run(const std::string& folder);

/// Where a file is expected: UserError(bad_config) for a folder, naming the file that is meant.
void refuse_folder(const std::string& path);

}  // namespace fourfold::rundir
