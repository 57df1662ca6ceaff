#include "cli/config_source.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "config/print.h"
#include "config/rules.h"
#include "job/nearest_grids.h"
#include "rundir/run_files.h"

namespace fourfold::cli {
namespace {

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

std::string config_of_run(const std::string& folder) {
  const std::string file = join_path(folder, rundir::RunFiles::config);
  if (file_exists(file)) return file;
  throw UserError(ExitCode::bad_config,
                  format("{}: error: holds no run: there is no {}; name the folder of a run, or a "
                         "configuration file",
                         folder, rundir::RunFiles::config));
}

/// Names the file that is meant where a folder is given.
void refuse_folder(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return;
  const std::string of_run = join_path(path, rundir::RunFiles::config);
  if (file_exists(of_run))
    throw UserError(
        ExitCode::bad_config,
        format("{} is the folder of a run, expected a YAML file; its configuration is {}, "
               "with which the run goes on",
               path, of_run));
  throw UserError(ExitCode::bad_config,
                  format("{} is a folder, expected a YAML file; name a file in it", path));
}

}  // namespace

config::Config load_config(const ConfigSource& source) {
  for (const std::string& file : source.files) refuse_folder(file);
  try {
    return config::load(source.files, source.sets);
  } catch (const config::UnfitGrid& error) {
    throw UserError(error.code(), error.what() + job::nearest_grids(error.config(), std::nullopt));
  }
}

config::Config load_files_or_run(const ConfigSource& source) {
  ConfigSource files = source;
  std::vector<std::string> of_runs;
  for (std::string& file : files.files)
    if (is_folder(file)) {
      file = config_of_run(file);
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

}  // namespace fourfold::cli
