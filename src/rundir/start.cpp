#include "rundir/start.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "checkpoint/model_files.h"
#include "checkpoint/restore.h"
#include "checkpoint/storage_probe.h"
#include "rundir/run_files.h"
#include "rundir/sessions.h"

namespace fourfold::rundir {
namespace {

namespace fs = std::filesystem;

/// The files that a run makes, and the folders.
constexpr std::array files = {RunFiles::config, RunFiles::command,      RunFiles::environment,
                              RunFiles::plan,   RunFiles::kernel_table, RunFiles::tokenizer,
                              RunFiles::grids,  RunFiles::metrics,      RunFiles::log,
                              RunFiles::sample, RunFiles::prediction,   RunFiles::layout};
constexpr std::array folders = {RunFiles::status, RunFiles::checkpoints, RunFiles::traces,
                                RunFiles::tensorboard, RunFiles::sessions};

template <class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What is meant for one start of a command. A job that its scheduler starts again goes on where
/// its own earlier start left off, whatever the command says.
struct Intent {
  bool overwrite = false;
  std::string how;
};
Intent intent_of(const StartRequest& request, const checkpoint::Store& store) {
  const LockHolder& own = request.holder;
  const auto sessions = read_sessions(request.dir);
  const bool is_restart = !own.job.empty() && !sessions.empty() && sessions.back().job == own.job &&
                          sessions.back().restart != own.restart;
  if (is_restart && request.how != "never" && !store.steps().empty()) return {false, "auto"};
  return {request.overwrites, request.how};
}

/// What the folder holds besides checkpoints of the run itself.
struct Holdings {
  bool has_record = false, has_strangers = false, has_weights = false, has_checkpoints = false;
};
Holdings look_into(const std::string& dir, const checkpoint::Store& store) {
  Holdings found;
  if (!file_exists(dir)) return found;
  for (const FileSystem::Entry& entry : real_files().list(dir)) {
    const std::string& name = entry.name;
    if (name == RunFiles::config || name == RunFiles::metrics || name == RunFiles::sessions)
      found.has_record = true;
    const bool is_known = name == RunFiles::lock || contains(folders, name) ||
                          checkpoint::is_model_file(name) ||
                          (contains(files, name) && name != RunFiles::sample);
    if (!is_known && !is_leftover(name)) found.has_strangers = true;
  }
  found.has_weights = checkpoint::find_model(dir).has_value();
  found.has_checkpoints = !store.steps().empty() || !store.lines().empty();
  return found;
}

/// Refuses a folder in which another run, or weights, would be lost. Whether a run that saved
/// nothing makes way.
bool check_free(const std::string& dir, const std::string& how, const checkpoint::Store& store) {
  const Holdings found = look_into(dir, store);
  const std::string choose = "choose another with --set run.dir=... or pass --overwrite";
  if (found.has_weights && !found.has_checkpoints)
    throw UserError(ExitCode::output_in_use,
                    format("{} holds the weights of a model ({}), which would be replaced; {}", dir,
                           fs::path(*checkpoint::find_model(dir)).filename().string(), choose));
  const bool is_kept =
      found.has_checkpoints || (found.has_record && (how == "never" || found.has_strangers));
  if (is_kept)
    throw UserError(ExitCode::output_in_use, format("{} holds an earlier run; {}", dir, choose));
  return found.has_record;
}

/// True for weights that say of which step they are, as a run's own do, and for what was damaged so
/// that nobody can read what it says.
bool may_be_own(const std::string& path) {
  try {
    return checkpoint::step_of_model(path).has_value();
  } catch (const UserError&) {
    return true;
  }
}

/// Weights that somebody else put there are not this run's to replace.
void check_weights_are_own(const std::string& dir) {
  const auto path = checkpoint::find_model(dir);
  if (!path || read_sessions(dir).empty() || may_be_own(*path)) return;
  throw UserError(
      ExitCode::output_in_use,
      format("{}: was not written by this run, which would replace it; move it away", *path));
}

/// Weights at the end, and as many checkpoints as there are when one has been saved and none of the
/// others removed yet.
checkpoint::StoragePlan storage_plan(const StartRequest& request, const checkpoint::Store& store,
                                     const RunStart& start) {
  checkpoint::StoragePlan plan;
  plan.other_bytes = request.weights_bytes;
  if (request.checkpoint_bytes == 0) return plan;
  plan.checkpoint_bytes = request.checkpoint_bytes;
  plan.checkpoints = request.checkpoints_kept + 1;
  std::int64_t counted = 0;
  for (const std::int64_t step : store.steps()) {
    // What is set aside stays beside the planned ones; of a run that is overwritten all go.
    if (start.is_own && step > start.point->found.manifest.step) continue;
    if (start.is_own && ++counted > request.checkpoints_kept) break;
    try {
      plan.reused_bytes += store.open(step).manifest.size_bytes();
    } catch (const UserError&) {
      // Nobody knows what a damaged one holds.
    }
  }
  return plan;
}

/// The folder, or the nearest above it that is there.
std::string nearest_folder(const std::string& dir) {
  fs::path path = absolute_path(dir);
  while (path.has_relative_path() && !file_exists(path.string())) path = path.parent_path();
  return path.string();
}

/// Nothing waits for the reader of a pipe, or writes to a device.
void check_kinds(const std::string& dir) {
  for (const char* name : files) {
    const std::string path = join_path(dir, name);
    // Lines may go to a device, as a link to /dev/null has it.
    const bool is_of_lines = name == RunFiles::log || name == RunFiles::metrics;
    if (!is_of_lines || !fs::is_character_file(path)) require_file_or_nothing(path);
  }
  for (const std::string_view name : {checkpoint::single_model_file, checkpoint::model_index_file})
    require_file_or_nothing(join_path(dir, std::string(name)));
  // Where others cannot be made, the run goes on without them.
  for (const char* name : {RunFiles::checkpoints, RunFiles::sessions}) {
    const std::string path = join_path(dir, name);
    if (file_exists(path) && !fs::is_directory(path))
      throw UserError(ExitCode::storage,
                      format("{}: is no folder, which a run makes there; move it away", path));
  }
}

/// Refuses a folder that cannot take the run; the folder itself is there unless the run is a dry
/// one.
void check_place(const StartRequest& request, const checkpoint::Store& store,
                 const RunStart& start) {
  const std::string place = nearest_folder(request.dir);
  if (request.is_dry) {
    if (!fs::is_directory(place) || ::access(place.c_str(), W_OK | X_OK) != 0)
      throw UserError(
          ExitCode::storage,
          format("{}: {} {}; choose a folder that this user can write to", request.dir, place,
                 fs::is_directory(place) ? "cannot be written" : "is no folder"));
  } else {
    checkpoint::probe_storage(real_files(), place);
  }
  checkpoint::check_room(real_files(), place, storage_plan(request, store, start));
}

}  // namespace

checkpoint::Store store_of(const std::string& dir) {
  return {real_files(), absolute_path(join_path(dir, RunFiles::checkpoints))};
}

bool has_final_weights(const std::string& dir, std::int64_t step) {
  const auto path = checkpoint::find_model(dir);
  return path && !checkpoint::fault_of_model(*path, step);  // an earlier version did not say a step
}

bool is_leftover(const std::string& name) {
  if (name.starts_with(".probe-") || name.starts_with(format("{}.", RunFiles::lock))) return true;
  constexpr std::string_view mark = ".tmp-";
  const std::size_t at = name.rfind(mark);
  if (at == name.npos) return false;
  const std::string stem = name.substr(0, at), number = name.substr(at + mark.size());
  const bool is_number = !number.empty() && number.find_first_not_of("0123456789") == number.npos;
  return is_number && (contains(files, stem) || checkpoint::is_model_file(stem));
}

RunStart plan_start(const StartRequest& request) {
  const std::string& dir = request.dir;
  const checkpoint::Store store = store_of(dir);
  check_kinds(dir);
  const Intent intent = intent_of(request, store);
  RunStart start;
  if (!intent.overwrite || intent.how != "auto") start.point = find_resume_point(intent.how, dir);
  if (start.point) {
    const std::string& path = start.point->found.path;
    start.is_own = path == store.path_of(start.point->found.manifest.step);
    if (!start.is_own && path.starts_with(store.folder() + "/"))
      throw UserError(
          ExitCode::output_in_use,
          format("--resume {}: was set aside when the run went back; go on from it in a "
                 "folder of its own: --set run.dir=...",
                 request.how));
    request.check_point(*start.point, start.is_own);
  } else {
    request.check_beginning();
  }
  if (start.is_own) {
    check_weights_are_own(dir);
    if (const auto path = checkpoint::find_model(dir))
      start.weights_fault = checkpoint::fault_of_model(*path, start.point->found.manifest.step);
  } else if (!intent.overwrite) {
    start.begins_anew = check_free(dir, intent.how, store);
  }
  start.overwrites = intent.overwrite && !start.is_own;
  check_place(request, store, start);
  return start;
}

void check_bytes(const StartRequest& request, const ResumePoint& point, Screen& screen) {
  const std::string folder = fs::path(point.found.path).parent_path().string();
  const checkpoint::Store store(real_files(), folder);
  std::string problems;
  for (checkpoint::Found found = point.found;;) {
    try {
      checkpoint::verify(real_files(), found);
      return;
    } catch (const UserError& error) {
      if (error.code() == ExitCode::storage)
        throw UserError(error.code(), checkpoint::not_known(error.what()));
      if (point.is_exact) throw;
      problems += format("\n  {}", error.what());
    }
    auto older = store.newest(found.manifest.step);
    if (!older.found)
      throw UserError(ExitCode::no_checkpoint, checkpoint::nothing_whole_in(folder, problems));
    request.check_older(older.found->manifest);
    screen.say(Level::warning,
               format("the checkpoint of step {} is damaged and would be passed over for that of "
                      "step {}:{}",
                      found.manifest.step, older.found->manifest.step, problems));
    found = std::move(*older.found);
  }
}

}  // namespace fourfold::rundir
