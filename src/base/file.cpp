#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>

#include "base/atomic_file.h"
#include "base/descriptor.h"
#include "base/format.h"

namespace fourfold {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

std::string advice_for_reading(int error) {
  if (error == EACCES || error == EPERM) return "make it readable for this user";
  if (error == EISDIR) return "name a file in it instead";
  if (error != ENOENT && error != ENOTDIR) return "check the file system";
  std::error_code ignored;
  const auto here = std::filesystem::current_path(ignored);
  return format("check the path (the current directory is {})", here.string());
}

[[noreturn]] void fail_reading(const std::string& path, ExitCode code, int error) {
  throw UserError(
      code, format("{}: cannot be read: {}; {}", path, reason(error), advice_for_reading(error)));
}

}  // namespace

std::string read_file(const std::string& path, ExitCode code) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) fail_reading(path, code, errno);
  struct stat facts = {};
  if (::fstat(file.number(), &facts) != 0) fail_reading(path, code, errno);
  std::string text;
  std::size_t filled = 0;
  text.resize(static_cast<std::size_t>(facts.st_size) +
              1);  // one byte more, to see the end of the file
  while (true) {
    const ssize_t got = ::read(file.number(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_reading(path, code, errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
    if (filled == text.size()) text.resize(text.size() * 2);
  }
  text.resize(filled);
  return text;
}

void write_file_atomic(const std::string& path, std::string_view text) {
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || !std::filesystem::is_directory(path, error))
    fail_writing(path, error ? error.value() : ENOTDIR);
}

bool file_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

std::string join_path(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace fourfold
