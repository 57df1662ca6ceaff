#include <cstdio>

#include "cli/commands.h"
#include "cli/job.h"
#include "data/token_sets.h"

namespace fourfold::cli {
namespace {

/// Finds what only a plan shows, such as heads that do not divide; needs the vocabulary, so the
/// data where the configuration leaves it open.
void check_plan(config::Config config) {
  const std::vector<std::string> missing = data::missing_files(config.data);
  for (const std::string& path : missing)
    std::printf("note: data.%s = %s is not there, seen from the current directory\n",
                config.data.blend.empty() ? "path" : "blend.path", path.c_str());
  if (config.model.vocab_size == 0 && !missing.empty()) return;
  resolve_vocabulary(config);
  plan_job(std::move(config));
}

}  // namespace

void config_check(const ConfigSource& source) {
  check_plan(load_config(source));
  std::string names;
  for (const std::string& file : source.files) names += (names.empty() ? "" : ", ") + file;
  std::printf("%s: no errors\n", names.c_str());
}

}  // namespace fourfold::cli
