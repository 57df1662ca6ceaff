// Texts that a person wrote, read whole and only if they can be such a text: no folder, no pipe, no
// device, not larger than agreed. Not for data (file.h) and never a wait.
#pragma once

#include <cstddef>
#include <string>
#include <variant>

namespace fourfold {

/// Why a file is not read, and what to do about it.
struct FileFault {
  std::string reason, advice;
};

/// The file's bytes, at most `most_bytes` of them. Anything but a regular file is refused
/// without waiting for a writer.
std::variant<std::string, FileFault> read_small_file(const std::string& path,
                                                     std::size_t most_bytes);

/// The same for a file that the program keeps for itself, such as a cache. Errors:
/// UserError(bad_data) with the reason.
std::string read_own_file(const std::string& path);

}  // namespace fourfold
