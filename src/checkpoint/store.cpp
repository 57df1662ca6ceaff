#include "checkpoint/store.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/shard.h"

namespace fourfold::checkpoint {
namespace {

constexpr std::string_view begun_prefix = ".begun-", trash_prefix = ".trash-";
constexpr std::string_view line_prefix = "line-";
constexpr std::string_view hint_name = "LATEST", protected_name = "PROTECTED";
constexpr std::int64_t largest_manifest = std::int64_t{1} << 30;

/// "line-12": 12.
std::optional<std::int64_t> parse_line_name(std::string_view name) {
  if (!name.starts_with(line_prefix)) return std::nullopt;
  std::int64_t number = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + line_prefix.size(), end, number);
  return error == std::errc() && stop == end && number > 0 ? std::optional(number) : std::nullopt;
}

void check_files(FileSystem& files, const Found& found) {
  for (const StoredFile& file : found.manifest.files) {
    const std::int64_t size = files.open(format("{}/{}", found.path, file.name))->size();
    if (size != file.size_bytes)
      throw UserError(ExitCode::no_checkpoint,
                      format("{}/{}: has {} bytes, its manifest says {}; the checkpoint is damaged",
                             found.path, file.name, size, file.size_bytes));
  }
}

}  // namespace

std::string not_known(std::string_view problem) {
  return format(
      "{}; what the checkpoint holds is not known: start again when it can be read, or go on from "
      "another with --resume CHECKPOINT",
      problem);
}

std::string step_name(std::int64_t step) {
  return format("step-{:09}", step);
}

std::optional<std::int64_t> parse_step_name(std::string_view name) {
  constexpr std::string_view prefix = "step-";
  if (!name.starts_with(prefix)) return std::nullopt;
  std::int64_t step = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  if (error != std::errc() || stop != end || step < 0 || step_name(step) != name)
    return std::nullopt;
  return step;
}

std::string Store::path_of(std::int64_t step) const {
  return format("{}/{}", folder_, step_name(step));
}

std::vector<std::int64_t> Store::steps() const {
  std::vector<std::int64_t> steps;
  if (!files_.exists(folder_)) return steps;
  // Also what is no folder: a link is followed when it is opened, and anything else is damaged.
  for (const FileSystem::Entry& entry : files_.list(folder_))
    if (const auto step = parse_step_name(entry.name)) steps.push_back(*step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

Found Store::open(std::int64_t step) const {
  Found found{path_of(step), {}};
  const std::string path = format("{}/{}", found.path, manifest_name);
  if (files_.open(path)->size() > largest_manifest)
    throw UserError(ExitCode::no_checkpoint, format("{}: is too large for a manifest", path));
  found.manifest = parse_manifest(read_text(files_, path), path);
  if (found.manifest.step != step)
    throw UserError(
        ExitCode::no_checkpoint,
        format("{}: is of step {}; give the folder its own name again", path, found.manifest.step));
  check_files(files_, found);
  return found;
}

Store::Newest Store::newest(std::optional<std::int64_t> before) const {
  Newest result;
  for (const std::int64_t step : steps()) {
    if (before && step >= *before) continue;
    try {
      result.found = open(step);
      return result;
    } catch (const UserError& error) {
      if (error.code() == ExitCode::storage) throw UserError(error.code(), not_known(error.what()));
      result.refused.push_back({path_of(step), error.what(), step});
    }
  }
  return result;
}

void Store::prepare() {
  if (!files_.exists(folder_)) {
    files_.make_directory(folder_);
    const std::string parent = folder_.substr(0, folder_.rfind('/'));
    files_.sync_directory(parent.empty() ? "/" : parent);
  }
  for (const FileSystem::Entry& entry : files_.list(folder_))
    if (entry.name.starts_with(begun_prefix) || entry.name.starts_with(trash_prefix))
      remove_folder_of_files(files_, format("{}/{}", folder_, entry.name));
}

void Store::clear() {
  for (const std::int64_t step : steps()) remove(step);
  const std::string list = format("{}/{}", folder_, protected_name);
  if (files_.exists(list)) files_.remove_file(list);
  for (const std::string& line : lines()) {
    Store(files_, line).clear();
    remove_folder_of_files(files_, line);
  }
}

std::vector<std::string> Store::lines() const {
  std::vector<std::int64_t> numbers;
  if (files_.exists(folder_))
    for (const FileSystem::Entry& entry : files_.list(folder_))
      if (const auto number = parse_line_name(entry.name)) numbers.push_back(*number);
  std::sort(numbers.begin(), numbers.end());
  std::vector<std::string> paths;
  for (const std::int64_t number : numbers)
    paths.push_back(format("{}/{}{}", folder_, line_prefix, number));
  return paths;
}

std::string Store::begin_line() {
  const auto before = lines();
  const std::int64_t last =
      before.empty() ? 0 : parse_line_name(before.back().substr(folder_.size() + 1)).value_or(0);
  const std::string path = format("{}/{}{}", folder_, line_prefix, last + 1);
  files_.make_directory(path);
  files_.sync_directory(folder_);
  return path;
}

void Store::set_aside_after(std::int64_t step, const std::string& line) {
  std::vector<std::int64_t> later = steps();
  std::reverse(later.begin(), later.end());
  for (const std::int64_t one : later) {
    if (one <= step) continue;
    whole_.erase(one);
    files_.rename(path_of(one), format("{}/{}", line, step_name(one)));
    files_.sync_directory(line);
    files_.sync_directory(folder_);
  }
}

std::string Store::begin(std::int64_t step) {
  const std::string path = format("{}/{}{}-{}", folder_, begun_prefix, step_name(step), ::getpid());
  remove_folder_of_files(files_, path);
  files_.make_directory(path);
  return path;
}

void Store::commit(const std::string& begun, const Manifest& manifest) {
  const std::string text = to_text(manifest), path = path_of(manifest.step);
  write_new_file(files_, format("{}/{}", begun, manifest_name), text);
  files_.sync_directory(begun);
  if (files_.exists(path)) {
    // What was read before may have been damaged since.
    whole_.erase(manifest.step);
    if (is_whole(manifest.step)) {
      remove_folder_of_files(files_, begun);
      return;
    }
    remove(manifest.step);
  }
  files_.rename(begun, path);
  files_.sync_directory(folder_);
  with_patience(patience_s_, [&] { check_files(files_, {path, manifest}); });
  set_whole(manifest.step);  // by the ranks that wrote it
  // A hint for people: readers look at the folders.
  replace_note(hint_name, format("{} {}\n", step_name(manifest.step), hash128_text(text)));
}

void Store::amend(const Manifest& manifest) {
  const std::string path = path_of(manifest.step), text = to_text(manifest);
  replace_file(path, manifest_name, text);
  replace_note(hint_name, format("{} {}\n", step_name(manifest.step), hash128_text(text)));
}

void Store::replace_note(std::string_view name, std::string_view text) {
  replace_file(folder_, name, text);
}

void Store::replace_file(const std::string& folder, std::string_view name, std::string_view text) {
  const std::string begun = format("{}/{}{}", folder, begun_prefix, name);
  if (files_.exists(begun)) files_.remove_file(begun);
  write_new_file(files_, begun, text);
  files_.rename(begun, format("{}/{}", folder, name));
  files_.sync_directory(folder);
}

std::string Store::protected_text() const {
  const std::string path = format("{}/{}", folder_, protected_name);
  return files_.exists(path) ? read_text(files_, path) : std::string();
}

std::set<std::int64_t> Store::protected_steps() const {
  std::set<std::int64_t> steps;
  const std::string text = protected_text();
  for (const std::string& line : split(text, '\n'))
    if (const auto step = parse_step_name(line.substr(0, line.find(' ')))) steps.insert(*step);
  return steps;
}

void Store::protect(std::int64_t step, std::string_view why) {
  if (protected_steps().contains(step)) return;
  replace_note(protected_name, format("{}{} {}\n", protected_text(), step_name(step), why));
}

void Store::abandon(const std::string& begun) noexcept {
  try {
    remove_folder_of_files(files_, begun);
  } catch (const std::exception&) {
    // What cannot be removed now is removed when the next job begins.
  }
}

std::string Store::prune(const Retention& retention, std::optional<std::int64_t> in_use) try {
  std::string problems;
  const std::int64_t keep = std::max<std::int64_t>(retention.keep_last, 2);
  const std::set<std::int64_t> protected_ones = protected_steps();
  std::int64_t healthy = 0;
  for (const std::int64_t step : steps()) {
    const bool is_permanent = (retention.keep_every > 0 && step % retention.keep_every == 0) ||
                              retention.also.contains(step);
    const bool stays =
        healthy < keep || is_permanent || step == in_use || protected_ones.contains(step);
    // A damaged one, or one that is not finite, is no reason to remove others.
    if (healthy < keep && is_whole(step) && open(step).manifest.is_finite) ++healthy;
    if (stays) continue;
    try {
      remove(step);
    } catch (const UserError& error) {
      problems += format("{}{}", problems.empty() ? "" : "\n", error.what());
    }
  }
  return problems;
} catch (const std::bad_alloc&) {
  return "out of memory";
}

bool Store::is_whole(std::int64_t step) {
  try {
    const Found found = open(step);
    if (!whole_.contains(step))
      for (const StoredFile& file : found.manifest.files) check_shard(files_, found.path, file);
    set_whole(step);
    return true;
  } catch (const UserError&) {
    whole_.erase(step);
    return false;
  }
}

void Store::remove(std::int64_t step) {
  whole_.erase(step);
  // A removal that is cut off must not leave half a checkpoint under a checkpoint's name.
  const std::string trash =
      format("{}/{}{}-{}", folder_, trash_prefix, step_name(step), ::getpid());
  remove_folder_of_files(files_, trash);
  files_.rename(path_of(step), trash);
  files_.sync_directory(folder_);
  remove_folder_of_files(files_, trash);
}

}  // namespace fourfold::checkpoint
