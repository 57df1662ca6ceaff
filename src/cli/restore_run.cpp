#include "cli/restore_run.h"

#include <string>

#include "base/file.h"
#include "base/file_system.h"
#include "cli/run_directory.h"
#include "cli/run_files.h"
#include "train/metrics.h"

namespace fourfold::cli {

checkpoint::Found restore_run(const TrainArguments& arguments, const Job& job,
                              const data::Dataset& dataset, const ResumePoint& point,
                              checkpoint::Store& store, run::Executor& executor, comm::World* world,
                              train::Screen& screen) {
  const std::string& path = point.found.path;
  const std::string folder = path.substr(0, path.rfind('/'));
  const bool is_own = folder == store.folder();
  checkpoint::Store other(real_files(), folder);
  const checkpoint::RestoreChoice choice{
      .may_fall_back = !point.is_exact,
      .check =
          [&](const checkpoint::Manifest& manifest) {
            check_resumable(manifest, job.config, dataset, arguments.resume);
          },
      .warn = [&](const std::string& text) { screen.say(train::Level::warning, text); }};
  checkpoint::Found found = checkpoint::restore(
      is_own ? store : other, point.found, choice, executor.bundle().at("train"),
      [&](const program::Buffer& b) { return executor.bytes(b); }, world);
  const bool is_root = world == nullptr || world->rank().index() == 0;
  if (is_root && is_own)
    train::keep_metrics(join_path(job.config.dir, RunFiles::metrics), found.manifest.step);
  return found;
}

}  // namespace fourfold::cli
