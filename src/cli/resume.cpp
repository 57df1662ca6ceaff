#include "cli/resume.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "checkpoint/restore.h"
#include "cli/run_files.h"
#include "config/compare.h"
#include "config/resume_class.h"

namespace fourfold::cli {
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
                      : format("{}: every checkpoint is damaged; begin anew with --resume never "
                               "--overwrite, or bring a copy:{}",
                               folder, list_refused(newest.refused)));
}

/// The configuration that wrote the checkpoint.
config::Config stored_config(const checkpoint::Manifest& manifest) {
  const std::array<std::string, 1> files{"the checkpoint's configuration"};
  return config::load(files, {}, [&](const std::string&) { return manifest.config; });
}

/// The weights know tokens by their numbers, so another tokenizer never will do.
void check_tokenizer(const checkpoint::Manifest& manifest, const data::Tokenizer& tokenizer) {
  if (manifest.tokenizer == tokenizer.to_text()) return;
  const auto former = data::tokenizer_from_text(manifest.tokenizer, "the checkpoint's tokenizer");
  throw UserError(ExitCode::bad_data,
                  format("the tokenizer has changed since step {}: {} then, {} now; bring the "
                         "former {}",
                         manifest.step, former->fingerprint(), tokenizer.fingerprint(),
                         former->name() == "char" ? "text, of which it is made" : "files"));
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

std::optional<ResumePoint> share(const std::optional<ResumePoint>& point, comm::World& world) {
  const auto found = checkpoint::share(point ? std::optional(point->found) : std::nullopt, world);
  std::int64_t is_exact = point && point->is_exact ? 1 : 0;
  world.all_reduce(std::span(&is_exact, 1), Reduction::max);
  if (!found) return std::nullopt;
  if (point) return point;
  return ResumePoint{*found, {}, is_exact != 0};
}

void check_resumable(const checkpoint::Manifest& manifest, const config::Config& config,
                     const data::Dataset& dataset, const ResumeChoice& choice) {
  const std::string conflicts = config::resume_conflicts(
      config::differences(stored_config(manifest), config), choice.overrides);
  if (!conflicts.empty())
    throw UserError(ExitCode::bad_config,
                    format("the run cannot continue from step {} with these settings:{}",
                           manifest.step, conflicts));
  const bool may_differ =
      std::find(choice.overrides.begin(), choice.overrides.end(), "data") != choice.overrides.end();
  check_tokenizer(manifest, dataset.tokenizer());
  const std::string data_fingerprint = dataset.fingerprint();
  if (manifest.data != data_fingerprint && !may_differ)
    throw UserError(
        ExitCode::bad_data,
        format("the training data has changed since step {}: {} then, {} now; bring the "
               "former, or pass --override data",
               manifest.step, manifest.data, data_fingerprint));
}

}  // namespace fourfold::cli
