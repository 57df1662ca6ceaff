// Configurations of commands: from files, or from the folder of a run to look at.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"

namespace fourfold::job {

/// Where a configuration comes from: files merged left to right, then --set texts.
struct ConfigSource {
  std::vector<std::string> files;
  std::vector<std::string> sets;
};

/// Reads and checks the configuration. Errors: UserError(bad_config) with the grids that would
/// work, where that of the configuration cannot.
config::Config load_config(const ConfigSource& source);

/// As load_config, but of a grid that may be any: one that does not fit is none of its faults.
config::Config load_config_of_any_grid(const ConfigSource& source);

/// As load_config, but a folder stands for the run in it: its settled configuration, with the
/// origins that it had. Errors: UserError(bad_config), also for a folder that holds no run.
config::Config load_files_or_run(const ConfigSource& source);

/// The same of one file or folder.
config::Config load_file_or_run(const std::string& path);

}  // namespace fourfold::job
