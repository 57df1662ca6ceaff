#include "base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
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
  if (error == ENOENT || error == ENOTDIR) return "make its folder first";
  return "choose a folder that this user can write to";
}

}  // namespace

void fail_writing(const std::string& path, int error) {
  throw UserError(ExitCode::storage,
                  format("{}: cannot be written: {}; {}", path,
                         std::generic_category().message(error), advice_for_writing(error)));
}

AtomicFile::AtomicFile(std::string path)
    : path_(std::move(path)), sibling_(format("{}.tmp-{}", path_, ::getpid())) {
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
  if (::fsync(descriptor_.number()) != 0) fail_writing(path_, errno);
  if (!descriptor_.close()) fail_writing(path_, errno);
  if (::rename(sibling_.c_str(), path_.c_str()) != 0) fail_writing(path_, errno);
  sibling_.clear();
  flush_folder_of(path_);
}

}  // namespace fourfold
