#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/styled_text.h"
#include "base/units.h"
#include "checkpoint/load.h"
#include "checkpoint/store.h"
#include "cli/commands.h"
#include "job/kept_checkpoints.h"
#include "rundir/resume.h"
#include "rundir/run_files.h"
#include "rundir/run_lock.h"
#include "rundir/trained_model.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

using checkpoint::Found;
using checkpoint::Manifest;
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

std::int64_t num_elements(const Manifest& manifest) {
  std::int64_t count = 0;
  for (const auto& tensor : manifest.tensors) count += tensor.shape.elements();
  return count;
}

void print_line(const Store& store, std::int64_t step, const std::string& kept) {
  try {
    const Found found = store.open(step);
    const Manifest& m = found.manifest;
    screen::print("step %9lld  %10s  %3zu file%s  %s%s%s\n", static_cast<long long>(step),
                  format_bytes(m.size_bytes()).c_str(), m.files.size(),
                  m.files.size() == 1 ? " " : "s", m.grid.c_str(),
                  m.is_finite ? "" : "  not finite",
                  kept.empty() ? "" : format("  stays: {}", kept).c_str());
  } catch (const UserError& error) {
    const bool is_read = error.code() != ExitCode::storage;
    screen::print("step %9lld  %s: %s\n", static_cast<long long>(step),
                  is_read ? "damaged" : "not read", without_controls(error.what()).c_str());
  }
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

}  // namespace

void ckpt_ls(const CkptArguments& arguments) {
  const Store store = store_at(arguments.path);
  const auto steps = store.steps();
  std::map<std::int64_t, std::string> kept;
  try {
    kept = job::kept_checkpoints(store);
  } catch (const UserError&) {
    // The lines say what cannot be read.
  }
  for (const std::int64_t step : steps) print_line(store, step, kept[step]);
  if (steps.empty()) screen::print("%s: no checkpoints\n", store.folder().c_str());
}

void ckpt_info(const CkptArguments& arguments) {
  const Found found = chosen(arguments.path, arguments.step);
  const Manifest& m = found.manifest;
  screen::print("checkpoint   %s\nstep         %lld, after %lld samples\nsaved by     %s on %s\n",
                found.path.c_str(), static_cast<long long>(m.step),
                static_cast<long long>(m.samples_seen), m.version.c_str(), m.grid.c_str());
  screen::print("state        %zu tensors, %s elements, %s in %s\ndata         %s\n\n",
                m.tensors.size(), format_count(static_cast<double>(num_elements(m))).c_str(),
                format_bytes(m.size_bytes()).c_str(),
                counted(static_cast<std::int64_t>(m.files.size()), "file").c_str(), m.data.c_str());
  for (const auto& tensor : m.tensors)
    screen::print("%-40s %-4s %-18s digest %016llx  %s\n", tensor.name.c_str(),
                  std::string(to_string(tensor.dtype)).c_str(), to_string(tensor.shape).c_str(),
                  static_cast<unsigned long long>(tensor.digest),
                  counted(static_cast<std::int64_t>(tensor.slices.size()), "slice").c_str());
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

}  // namespace fourfold::cli
