#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/units.h"
#include "checkpoint/describe.h"
#include "checkpoint/load.h"
#include "checkpoint/store.h"
#include "cli/command.h"
#include "job/kept_checkpoints.h"
#include "rundir/resume.h"
#include "rundir/run_files.h"
#include "rundir/run_lock.h"
#include "rundir/trained_model.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

struct CkptArguments {
  std::string path;
  std::optional<std::int64_t> step;  // none: the newest valid one; verify: all
  std::int64_t keep = 3;
  comm::Variable variable;
};

void list_options(OptionList& options, CkptArguments& given) {
  given.variable = options.caller().variable;
  options.add("RUN", given.path, "A run directory, or its folder of checkpoints",
              {.is_required = true});
}

using checkpoint::Found;
using checkpoint::Store;

/// The store that a path names: a run directory, or its folder of checkpoints.
Store store_at(const std::string& path) {
  if (!file_exists(path))
    throw UserError(ExitCode::no_checkpoint, format("{}: there is no such folder", path));
  const std::string below = join_path(path, rundir::RunFiles::checkpoints);
  return {real_files(), file_exists(below) ? below : path};
}

/// The run directory that these checkpoints belong to; empty: they lie elsewhere.
std::string run_of(const Store& store) {
  const std::string parent = absolute_path(join_path(store.folder(), ".."));
  const bool is_run = file_exists(join_path(parent, rundir::RunFiles::config)) ||
                      file_exists(join_path(parent, rundir::RunFiles::lock));
  return is_run ? parent : std::string();
}

/// The step that was asked for, or the newest valid one.
Found chosen(const std::string& path, std::optional<std::int64_t> step) {
  const Store store = store_at(path);
  if (step) {
    rundir::require_step(store, path, *step);
    return store.open(*step);
  }
  auto newest = store.newest();
  if (!newest.found)
    throw UserError(ExitCode::no_checkpoint,
                    format("{}: holds no checkpoint that is valid", store.folder()));
  return std::move(*newest.found);
}

void ckpt_ls(const CkptArguments& arguments) {
  const Store store = store_at(arguments.path);
  const auto steps = store.steps();
  std::map<std::int64_t, std::string> kept;
  try {
    kept = job::kept_checkpoints(store);
  } catch (const UserError&) {
    // The lines say what cannot be read.
  }
  for (const std::int64_t step : steps)
    screen::print_text(checkpoint::line_of(store, step, kept[step]));
  if (steps.empty()) screen::print("%s: no checkpoints\n", store.folder().c_str());
}

void ckpt_info(const CkptArguments& arguments) {
  screen::print_text(checkpoint::describe(chosen(arguments.path, arguments.step)));
}

void ckpt_verify(const CkptArguments& arguments) {
  const Store store = store_at(arguments.path);
  const std::vector<std::int64_t> steps =
      arguments.step ? std::vector{*arguments.step} : store.steps();
  if (steps.empty())
    throw UserError(ExitCode::no_checkpoint, format("{}: holds no checkpoint", store.folder()));
  if (arguments.step) rundir::require_step(store, arguments.path, *arguments.step);
  std::string problems;
  ExitCode code = ExitCode::no_checkpoint;
  for (const std::int64_t step : steps) {
    try {
      const Found found = store.open(step);
      checkpoint::verify(store.files(), found);
      screen::print("step %lld: %s, every hash and digest holds\n", static_cast<long long>(step),
                    format_bytes(found.manifest.size_bytes()).c_str());
    } catch (const UserError& error) {
      problems += format("{}{}", problems.empty() ? "" : "\n", error.what());
      if (error.code() == ExitCode::storage) code = ExitCode::storage;
    }
  }
  if (!problems.empty()) throw UserError(code, problems);
}

void ckpt_prune(const CkptArguments& arguments) {
  Store store = store_at(arguments.path);
  // Nobody removes what a run that works there may be about to load.
  std::optional<rundir::RunLock> lock;
  if (const std::string run = run_of(store); !run.empty())
    lock.emplace(run, rundir::this_holder(arguments.variable), rundir::LockOptions{});
  const auto before = store.steps();
  std::set<std::int64_t> kept;
  for (const auto& [step, why] : job::kept_checkpoints(store)) kept.insert(step);
  const std::string problems = store.prune({.keep_last = arguments.keep, .also = kept});
  screen::print("%zu of %zu checkpoints stay\n", store.steps().size(), before.size());
  if (!problems.empty()) throw UserError(ExitCode::storage, problems);
}

}  // namespace

void add_ckpt(Commands& commands) {
  commands.add_group({"ckpt", After{"generate"}, "Look after the checkpoints of a run",
                      "ckpt ls runs/gpt-quickstart"});
  commands.add({"ckpt ls", After{}, "List the checkpoints, the newest first, with the damaged ones",
                "ckpt ls runs/gpt-quickstart"},
               list_options, ckpt_ls);
  commands.add(
      {"ckpt info", After{"ls"}, "Print what a checkpoint holds",
       "ckpt info runs/gpt-quickstart --step 500"},
      [](OptionList& options, CkptArguments& given) {
        list_options(options, given);
        options.add("--step", given.step, "The checkpoint of this step (default: the newest)",
                    {.within = Least{0}});
      },
      ckpt_info);
  commands.add(
      {"ckpt verify", After{"info"}, "Read every byte and compare all hashes and digests",
       "ckpt verify runs/gpt-quickstart"},
      [](OptionList& options, CkptArguments& given) {
        list_options(options, given);
        options.add("--step", given.step, "Only the checkpoint of this step", {.within = Least{0}});
      },
      ckpt_verify);
  commands.add(
      {"ckpt prune", After{"verify"}, "Remove old checkpoints",
       "ckpt prune runs/gpt-quickstart --keep 2"},
      [](OptionList& options, CkptArguments& given) {
        list_options(options, given);
        options.add("--keep", given.keep, "How many of the newest healthy ones stay",
                    {.shows_default = true, .within = Whole{2, 1000000}});
      },
      ckpt_prune);
}

}  // namespace fourfold::cli
