#include "job/config_source.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "config/print.h"
#include "config/rules.h"
#include "job/nearest_grids.h"
#include "rundir/config_of_run.h"

namespace fourfold::job {
namespace {

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

}  // namespace

config::Config load_config(const ConfigSource& source, Takes takes) {
  std::vector<std::string> files = source.files, of_runs;
  for (std::string& file : files) {
    if (takes == Takes::runs && is_folder(file)) {
      file = rundir::config_of_run(file);
      of_runs.push_back(file);
    }
    rundir::refuse_folder(file);
  }
  try {
    config::Config config = config::load(files, source.sets);
    for (const std::string& file : of_runs)
      config::restore_origins(config, file, read_file(file, ExitCode::bad_config));
    return config;
  } catch (const config::UnfitGrid& error) {
    if (takes == Takes::any_grid) return error.config();
    throw UserError(error.code(), error.what() + nearest_grids(error.config(), std::nullopt));
  }
}

}  // namespace fourfold::job
