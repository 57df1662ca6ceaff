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

config::Config load_config(const ConfigSource& source) {
  for (const std::string& file : source.files) rundir::refuse_folder(file);
  try {
    return config::load(source.files, source.sets);
  } catch (const config::UnfitGrid& error) {
    throw UserError(error.code(), error.what() + job::nearest_grids(error.config(), std::nullopt));
  }
}

config::Config load_config_of_any_grid(const ConfigSource& source) {
  for (const std::string& file : source.files) rundir::refuse_folder(file);
  try {
    return config::load(source.files, source.sets);
  } catch (const config::UnfitGrid& error) {
    return error.config();
  }
}

config::Config load_files_or_run(const ConfigSource& source) {
  ConfigSource files = source;
  std::vector<std::string> of_runs;
  for (std::string& file : files.files)
    if (is_folder(file)) {
      file = rundir::config_of_run(file);
      of_runs.push_back(file);
    }
  config::Config config = load_config(files);
  for (const std::string& file : of_runs)
    config::restore_origins(config, file, read_file(file, ExitCode::bad_config));
  return config;
}

config::Config load_file_or_run(const std::string& path) {
  return load_files_or_run({.files = {path}, .sets = {}});
}

}  // namespace fourfold::job
