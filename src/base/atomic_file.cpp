#include "base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold {
namespace {

/// Makes a rename in the folder durable. Some file systems cannot flush a folder; the file itself
/// is safe all the same.
void flush_folder_of(const std::string& path) {
  auto folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.is_open()) ::fsync(descriptor.number());
}

std::string advice_for_writing(int error) {
  if (error == ENOSPC || error == EDQUOT) return "make space and start again";
  if (error == EFBIG) return "raise the limit on the size of files (ulimit -f) and start again";
  if (error == ENOENT || error == ENOTDIR) return "make its folder first";
  return "choose a folder that this user can write to";
}

}  // namespace

void fail_writing(const std::string& path, int error) {
  throw UserError(ExitCode::storage,
                  format("{}: cannot be written: {}; {}", path,
                         std::generic_category().message(error), advice_for_writing(error)));
}

void require_file_or_nothing(const std::string& path) {
  const auto look = [&](auto how, struct stat& facts) {
    int result = 0;
    do {
      result = how(path.c_str(), &facts);
    } while (result != 0 && errno == EINTR);
    return result == 0;
  };
  struct stat facts = {}, link = {};
  const bool is_there = look(::stat, facts);
  if (!is_there && errno != ENOENT) fail_writing(path, errno);
  if (is_there ? S_ISREG(facts.st_mode) : !look(::lstat, link)) return;
  const char* kind = !is_there                 ? "link to nothing"
                     : S_ISDIR(facts.st_mode)  ? "folder"
                     : S_ISFIFO(facts.st_mode) ? "pipe"
                     : S_ISSOCK(facts.st_mode) ? "socket"
                                               : "device";
  throw UserError(ExitCode::storage,
                  format("{}: is a {}; expected a file, or nothing: move it away "
                         "or choose another place",
                         path, kind));
}

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)) {
  require_file_or_nothing(path_);
  std::error_code error;
  if (const auto target = std::filesystem::canonical(path_, error);
      !error && std::filesystem::is_symlink(path_, error))
    path_ = target.string();
  sibling_ = format("{}.tmp-{}", path_, ::getpid());
  descriptor_ =
      Descriptor(::open(sibling_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!descriptor_.is_open()) fail_writing(path_, errno);
}

AtomicFile::~AtomicFile() {
  if (!sibling_.empty()) ::unlink(sibling_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_.number(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_writing(path_, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  require_file_or_nothing(path_);  // also what came there meanwhile
  if (::fsync(descriptor_.number()) != 0) fail_writing(path_, errno);
  if (!descriptor_.close()) fail_writing(path_, errno);
  if (::rename(sibling_.c_str(), path_.c_str()) != 0) fail_writing(path_, errno);
  sibling_.clear();
  flush_folder_of(path_);
}

}  // namespace fourfold
