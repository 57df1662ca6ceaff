#include "base/atomic_folder.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"

namespace fourfold {
namespace {

void refuse_if_used(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) return;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  if (is_folder && std::filesystem::is_empty(path, ignored)) return;
  throw UserError(ExitCode::output_in_use,
                  format("{}: {}; name a new folder, or remove this one", path,
                         is_folder ? "holds files already" : "is not a folder"));
}

}  // namespace

AtomicFolder::AtomicFolder(std::string path) : path_(absolute_path(path)) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  refuse_if_used(path_);
  make_directories(std::filesystem::path(path_).parent_path().string());
  sibling_ = format("{}.tmp-{}", path_, ::getpid());
  std::error_code ignored;
  std::filesystem::remove_all(sibling_, ignored);  // of a process that had the same number
  real_files().make_directory(sibling_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!is_committed_) std::filesystem::remove_all(sibling_, ignored);
}

void AtomicFolder::write(const std::string& name, std::string_view text) const {
  write_file_atomic(join_path(sibling_, name), text);
}

void AtomicFolder::commit() {
  refuse_if_used(path_);
  FileSystem& files = real_files();
  files.sync_directory(sibling_);
  files.rename(sibling_, path_);
  is_committed_ = true;
  files.sync_directory(std::filesystem::path(path_).parent_path().string());
}

}  // namespace fourfold
