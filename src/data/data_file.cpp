#include "data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::data {
namespace {

[[noreturn]] void fail_reading(const std::string& path, std::string_view what, int error) {
  const bool is_missing = error == ENOENT || error == ENOTDIR;
  const char* advice = is_missing ? "check the path"
                       : error == EMFILE
                           ? "allow more open files with ulimit -n, or use fewer files"
                           : "check the file and its disk";
  throw UserError(ExitCode::bad_data, format("{}: {}: {}; {}", path, what,
                                             std::generic_category().message(error), advice));
}

}  // namespace

DataFile::DataFile(std::string path)
    : path_(std::move(path)),
      // Without O_NONBLOCK opening a pipe would wait for its writer.
      file_(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
  if (!file_.is_open()) fail_reading(path_, "cannot be opened", errno);
  struct stat facts = {};
  if (::fstat(file_.number(), &facts) != 0) fail_reading(path_, "cannot be looked at", errno);
  if (!S_ISREG(facts.st_mode))
    throw UserError(ExitCode::bad_data,
                    format("{}: is {}, expected a regular file; write the data to one", path_,
                           S_ISDIR(facts.st_mode) ? "a folder" : "a pipe or device"));
  size_ = facts.st_size;
  modified_ns_ = std::int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec;
}

DataFile SeenFile::open() const {
  DataFile file(path_);
  if (file.size() == size_ && file.modified_ns() == modified_ns_) return file;
  throw UserError(
      ExitCode::bad_data,
      format("{}: has changed since it was first opened ({} bytes, now {}); start again", path_,
             size_, file.size()));
}

void DataFile::read(std::int64_t offset, std::span<std::byte> into) const {
  const std::size_t got = read_some(offset, into);
  if (got == into.size()) return;
  throw UserError(
      ExitCode::bad_data,
      format("{}: has shrunk: nothing at byte {}, expected {} more bytes there (it had {} when it "
             "was opened); bring the whole file",
             path_, offset + static_cast<std::int64_t>(got), into.size() - got, size_));
}

std::size_t DataFile::read_some(std::int64_t offset, std::span<std::byte> into) const {
  std::size_t all = 0;
  while (all < into.size()) {
    const ssize_t got = ::pread(file_.number(), into.data() + all, into.size() - all,
                                offset + static_cast<std::int64_t>(all));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      fail_reading(path_,
                   format("cannot be read at byte {}", offset + static_cast<std::int64_t>(all)),
                   errno);
    if (got == 0) break;
    all += static_cast<std::size_t>(got);
  }
  return all;
}

}  // namespace fourfold::data
