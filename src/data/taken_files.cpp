#include "data/taken_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "data/known_files.h"

namespace fourfold::data {
namespace {

namespace fs = std::filesystem;

/// Which file a name leads to.
using FileId = std::pair<dev_t, ino_t>;

[[noreturn]] void fail(const std::string& path, const std::string& what, const char* advice) {
  throw UserError(ExitCode::bad_data, format("{}: {}; {}", path, what, advice));
}

struct stat look_at(const std::string& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) == 0) return facts;
  if (errno == ENOENT || errno == ELOOP)
    fail(path, "is a link that leads nowhere, expected a file or a folder",
         "bring what it leads to, or remove it");
  fail(path, format("cannot be looked at: {}", std::generic_category().message(errno)),
       "check the folder and its disk");
}

void walk(const std::string& folder, std::span<const std::string> named,
          std::vector<FileId>& around, TakenFiles& files) {
  std::vector<std::string> names;
  try {
    for (const auto& entry : fs::directory_iterator(folder))
      names.push_back(entry.path().filename().string());
  } catch (const fs::filesystem_error& error) {
    fail(folder, format("cannot be listed: {}", error.code().message()), "check the folder");
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string path = join_path(folder, name);
    if (name.starts_with('.')) {
      if (std::ranges::find(named, path) == named.end())
        files.passed_over.add(path, "is hidden (name it itself to read it)");
      continue;
    }
    const struct stat facts = look_at(path);
    const FileId id(facts.st_dev, facts.st_ino);
    if (S_ISREG(facts.st_mode)) {
      files.taken.push_back(path);
    } else if (!S_ISDIR(facts.st_mode)) {
      files.passed_over.add(path, "is a pipe or device");
    } else if (std::ranges::find(around, id) != around.end()) {
      files.passed_over.add(path, "is a link to a folder around it");
    } else {
      around.push_back(id);
      walk(path, named, around, files);
      around.pop_back();
    }
  }
}

}  // namespace

void TakenFiles::add(TakenFiles others) {
  std::ranges::move(others.taken, std::back_inserter(taken));
  passed_over.add(others.passed_over);
  repeated.add(others.repeated);
}

std::vector<std::string> TakenFiles::notes() const {
  std::vector<std::string> notes;
  if (passed_over.count > 0) notes.push_back(passed_over.text("name", "passed over"));
  if (repeated.count > 0)
    notes.push_back(repeated.text("file", "read twice") + "; remove one of the two names");
  return notes;
}

TakenFiles files_below(const std::string& folder, std::span<const std::string> named) {
  TakenFiles files;
  const struct stat facts = look_at(folder);
  std::vector<FileId> around = {{facts.st_dev, facts.st_ino}};
  walk(folder, named, around, files);
  std::sort(files.taken.begin(), files.taken.end());
  return files;
}

void note_repeated(TakenFiles& files) {
  KnownFiles known;
  for (const std::string& path : files.taken)
    if (const auto same = known.find(path))
      files.repeated.add(
          path, same->is_copy ? "is a copy of " + same->path : format("is {} again", same->path));
    else
      known.add(path);
}

}  // namespace fourfold::data
