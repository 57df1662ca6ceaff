#include "base/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/format.h"

namespace fourfold {
namespace {

std::string_view advice(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; make space";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; choose a folder that this user can write to";
    case ENOENT:
    case ENOTDIR:
      return "; check the path";
    case EIO:
    case ESTALE:
      return "; check the disk or the network file system";
    default:
      return "";
  }
}

[[noreturn]] void fail(ExitCode code, const std::string& path, std::string_view what, int error) {
  throw FileError(
      code,
      format("{}: {}: {}{}", path, what, std::generic_category().message(error), advice(error)),
      error);
}
[[noreturn]] void fail_to_write(const std::string& path, std::string_view what) {
  fail(ExitCode::storage, path, what, errno);
}
/// True if the error says what stands at the path. Else nobody knows: the disk, the network or this
/// process could not tell.
bool says_what_is_there(int error) {
  constexpr std::array known = {ENOENT, ENOTDIR, EISDIR, ELOOP, ENAMETOOLONG, EINVAL, ENXIO};
  return std::ranges::find(known, error) != known.end();
}

[[noreturn]] void fail_to_read(const std::string& path, std::string_view what) {
  const int error = errno;
  fail(says_what_is_there(error) ? ExitCode::no_checkpoint : ExitCode::storage, path, what, error);
}

class RealWriter final : public FileSystem::Writer {
 public:
  RealWriter(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  void write(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.number(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_to_write(path_, "cannot be written");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }
  void sync() override {
    if (::fsync(file_.number()) != 0) fail_to_write(path_, "cannot be flushed to the disk");
  }
  void close() override {
    if (!file_.close()) fail_to_write(path_, "cannot be closed");
  }

 private:
  std::string path_;
  Descriptor file_;
};

class RealReader final : public FileSystem::Reader {
 public:
  RealReader(std::string path, Descriptor file, std::int64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  std::int64_t size() const override { return size_; }
  void read(std::int64_t offset, std::span<std::byte> into) const override {
    while (!into.empty()) {
      const ssize_t got = ::pread(file_.number(), into.data(), into.size(), offset);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_to_read(path_, "cannot be read");
      if (got == 0)
        throw FileError(ExitCode::no_checkpoint,
                        format("{}: ends at byte {}, expected {} more; the file has shrunk", path_,
                               offset, into.size()),
                        0);
      into = into.subspan(static_cast<std::size_t>(got));
      offset += got;
    }
  }

 private:
  std::string path_;
  Descriptor file_;
  std::int64_t size_;
};

class RealFiles final : public FileSystem {
 public:
  std::unique_ptr<Writer> create(const std::string& path) override {
    Descriptor file(
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file.is_open()) fail_to_write(path, "cannot be made");
    return std::make_unique<RealWriter>(path, std::move(file));
  }

  std::unique_ptr<Writer> reopen(const std::string& path, std::int64_t bytes) override {
    Descriptor file(::open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file.is_open()) fail_to_write(path, "cannot be opened to be continued");
    const off_t there = ::lseek(file.number(), 0, SEEK_END);
    if (there >= 0 && there < bytes)
      throw FileError(ExitCode::storage,
                      format("{}: has {} bytes, expected at least {}", path, there, bytes), EIO);
    if (::ftruncate(file.number(), bytes) != 0) fail_to_write(path, "cannot be cut");
    if (::lseek(file.number(), 0, SEEK_END) != bytes) fail_to_write(path, "cannot be continued");
    return std::make_unique<RealWriter>(path, std::move(file));
  }

  std::unique_ptr<Reader> open(const std::string& path) override {
    // Without O_NONBLOCK opening a pipe would wait for its writer.
    Descriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file.is_open()) fail_to_read(path, "cannot be opened");
    struct stat facts = {};
    if (::fstat(file.number(), &facts) != 0) fail_to_read(path, "cannot be looked at");
    if (!S_ISREG(facts.st_mode))
      throw FileError(ExitCode::no_checkpoint,
                      format("{}: expected a regular file, no folder, pipe or device", path),
                      EINVAL);
    return std::make_unique<RealReader>(path, std::move(file), facts.st_size);
  }

  void make_directory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0777) != 0) fail_to_write(path, "cannot be made");
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0)
      fail_to_write(from, format("cannot be renamed to {}", to));
  }
  void sync_directory(const std::string& path) override {
    const Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder.is_open()) fail_to_write(path, "cannot be opened");
    // Some file systems cannot flush a folder, and say so.
    if (::fsync(folder.number()) != 0 && errno != EINVAL)
      fail_to_write(path, "cannot be flushed to the disk");
  }
  void remove_file(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) fail_to_write(path, "cannot be removed");
  }
  void remove_directory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) fail_to_write(path, "cannot be removed");
  }

  std::vector<Entry> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
    if (!folder) fail_to_read(path, "cannot be listed");
    std::vector<Entry> entries;
    while (const dirent* entry = ::readdir(folder.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat facts = {};
      const bool is_there =
          ::fstatat(::dirfd(folder.get()), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
      entries.push_back({name, is_there && S_ISDIR(facts.st_mode)});
    }
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return entries;
  }

  bool exists(const std::string& path) override {
    struct stat facts = {};
    return ::lstat(path.c_str(), &facts) == 0;
  }

  bool is_folder(const std::string& path) override {
    struct stat facts = {};
    return ::lstat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
  }

  std::int64_t free_bytes(const std::string& path) override {
    struct statvfs facts = {};
    if (::statvfs(path.c_str(), &facts) != 0) fail_to_write(path, "cannot be looked at");
    return static_cast<std::int64_t>(facts.f_bavail) * static_cast<std::int64_t>(facts.f_frsize);
  }
};

}  // namespace

FileSystem& real_files() {
  static RealFiles files;
  return files;
}

std::string read_text(FileSystem& files, const std::string& path) {
  const auto file = files.open(path);
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void write_new_file(FileSystem& files, const std::string& path, std::string_view text) {
  const auto file = files.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->sync();
  file->close();
}

void remove_folder_of_files(FileSystem& files, const std::string& path) {
  if (!files.exists(path)) return;
  if (!files.is_folder(path)) {
    files.remove_file(path);
    return;
  }
  for (const FileSystem::Entry& entry : files.list(path))
    files.remove_file(format("{}/{}", path, entry.name));
  files.remove_directory(path);
}

}  // namespace fourfold
