#include "cli/restore_run.h"

#include <string>

#include "base/file_system.h"
#include "job/resume_rules.h"

namespace fourfold::cli {

checkpoint::Found restore_run(const TrainArguments& arguments, const job::Job& job,
                              const data::Source& source, const rundir::ResumePoint& point,
                              checkpoint::Store& store, run::Executor& executor, comm::World* world,
                              Screen& screen) {
  const std::string& path = point.found.path;
  const std::string folder = path.substr(0, path.rfind('/'));
  const bool is_own = folder == store.folder();
  checkpoint::Store other(real_files(), folder);
  const checkpoint::RestoreChoice choice{
      .may_fall_back = !point.is_exact,
      .check =
          [&](const checkpoint::Manifest& manifest) {
            job::check_resumable(manifest, job.config, source, arguments.resume.overrides);
          },
      .warn = [&](const std::string& text) { screen.say(Level::warning, text); }};
  return checkpoint::restore(
      is_own ? store : other, point.found, choice, executor.bundle().at("train"),
      [&](const program::Buffer& b) { return executor.bytes(b); }, world);
}

}  // namespace fourfold::cli
