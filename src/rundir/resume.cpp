#include "rundir/resume.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "checkpoint/restore.h"
#include "rundir/run_files.h"

namespace fourfold::rundir {
namespace {

std::string list_refused(const std::vector<checkpoint::Refused>& refused) {
  std::string lines;
  for (const checkpoint::Refused& one : refused) lines += format("\n  {}", one.why);
  return lines;
}

/// A folder of checkpoints, and one of them where the path names it.
struct Named {
  std::string folder;
  std::optional<std::int64_t> step;
};

Named look_at(const std::string& path) {
  const std::string plain = absolute_path(path);
  const std::size_t slash = plain.rfind('/');
  if (const auto step = checkpoint::parse_step_name(plain.substr(slash + 1)))
    return {plain.substr(0, slash), step};
  const std::string below = join_path(plain, RunFiles::checkpoints);
  return {file_exists(below) ? below : plain, std::nullopt};
}

ResumePoint newest_in(const std::string& folder) {
  auto newest = checkpoint::Store(real_files(), folder).newest();
  if (newest.found) return {std::move(*newest.found), std::move(newest.refused), false};
  throw UserError(ExitCode::no_checkpoint,
                  newest.refused.empty()
                      ? format("{}: holds no checkpoint (a folder named step-NNNNNNNNN)", folder)
                      : checkpoint::nothing_whole_in(folder, list_refused(newest.refused)));
}

}  // namespace

std::optional<ResumePoint> find_resume_point(const std::string& how, const std::string& run_dir) {
  if (how == "never") return std::nullopt;
  if (how == "auto") {
    const std::string folder = absolute_path(join_path(run_dir, RunFiles::checkpoints));
    if (checkpoint::Store(real_files(), folder).steps().empty()) return std::nullopt;
    return newest_in(folder);
  }
  if (!file_exists(how))
    throw UserError(ExitCode::no_checkpoint,
                    format("--resume {}: there is no such folder; expected auto, never, or a run "
                           "directory or checkpoint",
                           how));
  const Named named = look_at(how);
  if (!named.step) return newest_in(named.folder);
  return ResumePoint{checkpoint::Store(real_files(), named.folder).open(*named.step), {}, true};
}

std::optional<ResumePoint> share(const std::optional<ResumePoint>& point, comm::World* world) {
  if (world == nullptr) return point;
  const auto found = checkpoint::share(point ? std::optional(point->found) : std::nullopt, *world);
  std::int64_t is_exact = point && point->is_exact ? 1 : 0;
  world->all_reduce(std::span(&is_exact, 1), Reduction::max);
  if (!found) return std::nullopt;
  if (point) return point;
  return ResumePoint{*found, {}, is_exact != 0};
}

checkpoint::Found restore(const ResumePoint& point, checkpoint::Store& own,
                          checkpoint::RestoreChoice choice, const program::Program& program,
                          const checkpoint::BufferBytes& bytes_of, comm::World* world) {
  const std::string& path = point.found.path;
  const std::string folder = path.substr(0, path.rfind('/'));
  checkpoint::Store other(real_files(), folder);
  choice.may_fall_back = !point.is_exact;
  return checkpoint::restore(folder == own.folder() ? own : other, point.found, choice, program,
                             bytes_of, world);
}

}  // namespace fourfold::rundir
