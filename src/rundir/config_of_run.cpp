#include "rundir/config_of_run.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "rundir/run_files.h"

namespace fourfold::rundir {

std::string config_of_run(const std::string& folder) {
  const std::string file = join_path(folder, RunFiles::config);
  if (file_exists(file)) return file;
  throw UserError(ExitCode::bad_config,
                  format("{}: error: holds no run: there is no {}; name the folder of a run, or a "
                         "configuration file",
                         folder, RunFiles::config));
}

void refuse_folder(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return;
  const std::string of_run = join_path(path, RunFiles::config);
  if (file_exists(of_run))
    throw UserError(
        ExitCode::bad_config,
        format("{} is the folder of a run, expected a YAML file; its configuration is {}, "
               "with which the run goes on",
               path, of_run));
  throw UserError(ExitCode::bad_config,
                  format("{} is a folder, expected a YAML file; name a file in it", path));
}

}  // namespace fourfold::rundir
