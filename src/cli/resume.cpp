#include "cli/resume.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "checkpoint/restore.h"
#include "cli/run_files.h"
#include "config/compare.h"
#include "config/resume_class.h"
#include "train/schedule.h"

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
                      : checkpoint::nothing_whole_in(folder, list_refused(newest.refused)));
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

bool is_override(const ResumeChoice& choice, std::string_view key) {
  return std::find(choice.overrides.begin(), choice.overrides.end(), key) != choice.overrides.end();
}

/// What would make the learning rate leap at the step from which the run goes on, although nobody
/// has changed it: more steps stretch a schedule whose end follows from them. Empty: nothing.
std::string find_leap(std::int64_t step, const config::Config& before, const config::Config& now) {
  const train::TrainSpec &old = before.train, &fresh = now.train;
  if (old.schedule.kind != fresh.schedule.kind || step >= fresh.steps) return {};
  train::ScheduleSpec former = old.schedule;  // in shape
  former.lr = fresh.schedule.lr;
  former.min_lr = fresh.schedule.min_lr;
  const double expected = train::learning_rate(former, old.steps, step);
  const auto leaps = [&](const train::ScheduleSpec& schedule) {
    constexpr double rounding = 1e-9;
    const double rate = train::learning_rate(schedule, fresh.steps, step);
    return std::abs(rate - expected) > rounding * std::max(rate, expected);
  };
  if (!leaps(fresh.schedule)) return {};
  std::string keep;
  if (!leaps(former)) {
    const auto note = [&](const char* key, std::int64_t then, std::int64_t value) {
      if (then != value) keep += format(" --set lr_schedule.{}={}", key, then);
    };
    note("warmup_steps", former.warmup_steps, fresh.schedule.warmup_steps);
    note("decay_steps", former.decay_steps, fresh.schedule.decay_steps);
  }
  return format(
      "\n  lr_schedule: the learning rate of step {} would be {:.3g}, and {:.3g} on the schedule "
      "of "
      "the checkpoint (train.steps {} then, {} now); {}if you mean it, pass --override lr_schedule",
      step + 1, train::learning_rate(fresh.schedule, fresh.steps, step), expected, old.steps,
      fresh.steps, keep.empty() ? "" : format("to keep that, pass{}; ", keep));
}

/// The data of a manifest, or now: what trains, and what validates apart.
struct DataParts {
  std::string train, validation;
  explicit DataParts(const std::string& fingerprint) {
    const std::size_t end = fingerprint.find("; ");
    train = fingerprint.substr(0, end);
    if (end != fingerprint.npos) validation = fingerprint.substr(end + 2);
  }
};

void check_data(const checkpoint::Manifest& manifest, const std::string& fingerprint,
                const ResumeChoice& choice) {
  if (is_override(choice, "data")) return;
  const DataParts then(manifest.data), now(fingerprint);
  const auto refuse = [&](const char* what, const std::string& a, const std::string& b,
                          const char* key) {
    const auto in_words = [](const std::string& part) { return part.empty() ? "none" : part; };
    throw UserError(ExitCode::bad_data,
                    format("the {} data has changed since step {}: {} then, {} now; bring the "
                           "former, or pass --override {}",
                           what, manifest.step, in_words(a), in_words(b), key));
  };
  if (then.train != now.train) refuse("training", then.train, now.train, "data");
  if (then.validation != now.validation && !is_override(choice, "data.validation"))
    refuse("validation", then.validation, now.validation, "data.validation");
}

}  // namespace

config::Config stored_config(const checkpoint::Manifest& manifest) {
  const std::array<std::string, 1> files{"the checkpoint's configuration"};
  return config::load(files, {}, [&](const std::string&) { return manifest.config; });
}

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

bool has_same_validation(const checkpoint::Manifest& manifest, const config::Config& config,
                         const data::Source& source) {
  const data::DataSpec then = stored_config(manifest).data, &now = config.data;
  const DataParts before(manifest.data), after(source.fingerprint());
  if (before.validation != after.validation || then.seq_length != now.seq_length) return false;
  const bool is_apart = !after.validation.empty();
  return is_apart || (before.train == after.train && then.split == now.split);
}

void check_resumable(const checkpoint::Manifest& manifest, const config::Config& config,
                     const data::Source& source, const ResumeChoice& choice) {
  const config::Config stored = stored_config(manifest);
  std::string conflicts =
      config::resume_conflicts(config::differences(stored, config), choice.overrides);
  if (!is_override(choice, "lr_schedule")) conflicts += find_leap(manifest.step, stored, config);
  if (!conflicts.empty())
    throw UserError(ExitCode::bad_config,
                    format("the run cannot continue from step {} with these settings:{}",
                           manifest.step, conflicts));
  if (source.tokenizer() != nullptr) check_tokenizer(manifest, *source.tokenizer());
  check_data(manifest, source.fingerprint(), choice);
}

}  // namespace fourfold::cli
