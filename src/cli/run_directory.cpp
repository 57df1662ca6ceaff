#include "cli/run_directory.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/styled_text.h"
#include "checkpoint/state.h"
#include "checkpoint/storage_probe.h"
#include "cli/run_files.h"
#include "cli/summary.h"
#include "config/print.h"
#include "plan/plan.h"

namespace fourfold::cli {
namespace {

/// Weights at the end, and as many checkpoints as there are when one has been saved and none of the
/// others removed yet.
checkpoint::StoragePlan storage_plan(const Job& job, const checkpoint::Store& store, bool goes_on) {
  const train::CheckpointSpec& spec = job.config.train.checkpoint;
  const program::Program& train = job.bundle.at("train");
  checkpoint::StoragePlan plan;
  plan.other_bytes = checkpoint::parameter_bytes(train);
  if (!spec.is_on()) return plan;
  plan.checkpoint_bytes = checkpoint::whole_bytes(train);
  plan.checkpoints = spec.keep_last + 1;
  std::int64_t counted = 0;
  for (const std::int64_t step : store.steps()) {
    // Of the run itself those that stay are among the planned ones; of another all go.
    if (goes_on && ++counted > spec.keep_last) break;
    try {
      plan.reused_bytes += store.open(step).manifest.size_bytes();
    } catch (const UserError&) {
      // Of a damaged one nobody knows what it holds.
    }
  }
  return plan;
}

/// What is in a new folder survives a loss of power only if the way to it does.
void sync_way_to(const std::string& dir) {
  std::string path = absolute_path(dir);
  while (path.size() > 1) {
    path = path.substr(0, std::max<std::size_t>(path.rfind('/'), 1));
    try {
      real_files().sync_directory(path);
    } catch (const UserError&) {
      return;  // not this user's, and so not new
    }
  }
}

/// Whether all that is there was left by a run that ended before it had saved any weights. What a
/// run does not leave, and anything that cannot be told apart from it, is somebody's.
bool is_fruitless(const std::string& dir, const checkpoint::Store& store) {
  constexpr std::array files = {RunFiles::config,     RunFiles::command,      RunFiles::environment,
                                RunFiles::plan,       RunFiles::kernel_table, RunFiles::tokenizer,
                                RunFiles::metrics,    RunFiles::log,          RunFiles::lock,
                                RunFiles::status,     RunFiles::checkpoints,  RunFiles::traces,
                                RunFiles::tensorboard};
  for (const FileSystem::Entry& entry : real_files().list(dir))
    if (std::find(files.begin(), files.end(), entry.name) == files.end()) return false;
  return file_exists(join_path(dir, RunFiles::config)) && store.steps().empty();
}

/// Refuses a directory that holds another run, and makes room for this one. Whether a fruitless run
/// made way.
bool make_room(const TrainArguments& arguments, const Job& job,
               const std::optional<ResumePoint>& point) {
  const std::string& dir = job.config.dir;
  checkpoint::Store store = store_of(job.config);
  const bool goes_on = point && point->found.path.starts_with(store.folder() + "/");
  const bool is_taken =
      !arguments.overwrite && !goes_on && file_exists(join_path(dir, RunFiles::metrics));
  if (is_taken && (arguments.resume.how != "auto" || !is_fruitless(dir, store)))
    throw UserError(
        ExitCode::output_in_use,
        format("{} holds an earlier run; choose another with --set run.dir=... or pass --overwrite",
               dir));
  make_directories(dir);
  sync_way_to(dir);
  // Before anything is removed.
  checkpoint::probe_storage(real_files(), dir);
  checkpoint::check_room(real_files(), dir, storage_plan(job, store, goes_on));
  store.prepare();
  if (arguments.overwrite && !goes_on) store.clear();
  return is_taken;
}

}  // namespace

checkpoint::Store store_of(const config::Config& config) {
  return {real_files(), absolute_path(join_path(config.dir, RunFiles::checkpoints))};
}

std::optional<ResumePoint> resume_point(const TrainArguments& arguments, const Job& job,
                                        const data::Dataset& dataset) {
  if (arguments.overwrite && arguments.resume.how == "auto") return std::nullopt;
  auto point = find_resume_point(arguments.resume.how, job.config.dir);
  if (!point) return point;
  const checkpoint::Manifest& manifest = point->found.manifest;
  check_resumable(manifest, job.config, dataset, arguments.resume);
  const std::int64_t steps = job.config.train.steps;
  if (manifest.step >= steps)
    throw UserError(
        ExitCode::output_in_use,
        format("{}: the run is complete, {} of {} steps; to go on raise train.steps, to "
               "begin anew choose another run.dir or pass --overwrite",
               job.config.dir, manifest.step, steps));
  if (arguments.stop_at && manifest.step >= *arguments.stop_at)
    throw UserError(ExitCode::bad_config,
                    format("--stop-at {}: the run goes on from step {}; expected more",
                           *arguments.stop_at, manifest.step));
  return point;
}

bool open_run_directory(const TrainArguments& arguments, const Job& job,
                        const data::Dataset& dataset, const JobFacts& facts,
                        const std::optional<ResumePoint>& point) {
  const std::string& dir = job.config.dir;
  const bool begins_anew = make_room(arguments, job, point);
  write_file_atomic(join_path(dir, RunFiles::config), config::shown_yaml(job.config));
  if (!job.kernel_table.empty())
    write_file_atomic(join_path(dir, RunFiles::kernel_table), job.kernel_table);
  write_file_atomic(join_path(dir, RunFiles::tokenizer), dataset.tokenizer().to_text() + "\n");
  write_file_atomic(join_path(dir, RunFiles::plan), without_styles(to_text(summary_rows(job))) +
                                                        "\n" + plan::to_text(job.plan, job.graphs));
  write_file_atomic(
      join_path(dir, RunFiles::command),
      command_text(arguments.command, current_directory(), facts.are_processes ? facts.ranks : 1));
  write_file_atomic(join_path(dir, RunFiles::environment),
                    environment_json(facts, arguments.variable).dump() + "\n");
  return begins_anew;
}

}  // namespace fourfold::cli
