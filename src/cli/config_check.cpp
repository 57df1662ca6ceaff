
#include "cli/commands.h"
#include "cli/config_source.h"
#include "data/token_sets.h"
#include "job/job.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// Finds what only a plan shows, such as heads that do not divide; needs the data where the
/// configuration leaves something of the model open to them.
void check_plan(config::Config config) {
  const std::vector<data::MissingFile> missing = data::missing_files(config.data);
  for (const auto& [key, path] : missing)
    screen::print("note: %s = %s is not there, seen from the current directory\n", key.c_str(),
                  path.c_str());
  if (job::needs_data(config) && !missing.empty()) return;
  job::resolve_model(config);
  job::plan_job(std::move(config));
}

}  // namespace

void config_check(const ConfigSource& source) {
  check_plan(load_config(source));
  std::string names;
  for (const std::string& file : source.files) names += (names.empty() ? "" : ", ") + file;
  screen::print("%s: no errors\n", names.c_str());
}

}  // namespace fourfold::cli
