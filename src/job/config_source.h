// Configurations of commands: from files, or from the folder of a run to look at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"

namespace fourfold::job {

/// Where a configuration comes from: files merged left to right, then --set texts.
struct ConfigSource {
  std::vector<std::string> files;
  std::vector<std::string> sets;
};

/// What a command takes beside files whose grid fits.
enum class Takes : std::uint8_t {
  files,
  any_grid,  // one that does not fit is no fault
  runs       // a folder stands for the run in it: its configuration, with the origins that it had
};

/// Reads and checks the configuration. Errors: UserError(bad_config), also for a folder that is not
/// taken or holds no run, and with the grids that would work, where that of the configuration
/// cannot.
config::Config load_config(const ConfigSource& source, Takes takes = Takes::files);

}  // namespace fourfold::job
