#include "base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/format.h"
#include "base/units.h"

namespace fourfold {
namespace {

FileFault fault_of(int error) {
  std::string advice = "check the file system";
  if (error == EACCES || error == EPERM) advice = "make it readable for this user";
  if (error == ENOENT || error == ENOTDIR) {
    std::error_code ignored;
    advice = format("check the path (the current directory is {})",
                    std::filesystem::current_path(ignored).string());
  }
  return {format("cannot be read: {}", std::generic_category().message(error)), advice};
}

/// What the file is, where it is not a regular one.
std::optional<FileFault> other_kind(mode_t mode) {
  if (S_ISREG(mode)) return std::nullopt;
  if (S_ISDIR(mode)) return FileFault{"is a folder", "name a file in it instead"};
  const char* kind = S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
  return FileFault{format("is {}, not a file", kind), "write the text to a file and name that"};
}

}  // namespace

std::variant<std::string, FileFault> read_small_file(const std::string& path,
                                                     std::size_t most_bytes) {
  // Opening a pipe would wait for its writer, so the descriptor is opened without waiting.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.is_open()) return fault_of(errno);
  struct stat facts = {};
  if (::fstat(file.number(), &facts) != 0) return fault_of(errno);
  if (const auto fault = other_kind(facts.st_mode)) return *fault;
  // One byte more than the file has, to see that there is no more; those of /proc say that they
  // have none.
  const auto size_bytes = static_cast<std::size_t>(facts.st_size);
  std::string text(std::min(size_bytes, most_bytes) + 1, '\0');
  std::size_t filled = 0;
  while (filled <= most_bytes) {
    if (filled == text.size()) text.resize(std::min(2 * filled, most_bytes + 1));
    const ssize_t got = ::read(file.number(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fault_of(errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  if (filled > most_bytes)
    return FileFault{
        format("is larger than {}", format_bytes(static_cast<std::int64_t>(most_bytes))),
        "check that it is the file you mean"};
  text.resize(filled);
  return text;
}

std::string read_own_file(const std::string& path) {
  constexpr std::size_t most_bytes = std::size_t{64} << 20;
  auto text = read_small_file(path, most_bytes);
  if (const auto* fault = std::get_if<FileFault>(&text))
    throw UserError(ExitCode::bad_data, format("{}: {}; remove it", path, fault->reason));
  return std::get<std::string>(std::move(text));
}

}  // namespace fourfold
