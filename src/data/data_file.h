// A file of data, read at any place without mapping it. Not a stream (byte_source.h) and not for
// writing (base/file_system.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/descriptor.h"

namespace fourfold::data {

/// A regular file, or a link to one; anything else is refused without waiting for it. Errors of all
/// functions: UserError(bad_data) with the path, the offset and what to do. For several threads at
/// once.
class DataFile {
 public:
  explicit DataFile(std::string path);

  const std::string& path() const { return path_; }
  /// When it was opened.
  std::int64_t size() const { return size_; }
  /// When it was last changed, then: nanoseconds since 1970.
  std::int64_t modified_ns() const { return modified_ns_; }
  /// Exactly these bytes. A file that has become shorter is an error and no signal.
  void read(std::int64_t offset, std::span<std::byte> into) const;
  /// As many of these bytes as there are.
  std::size_t read_some(std::int64_t offset, std::span<std::byte> into) const;

 private:
  std::string path_;
  Descriptor file_;
  std::int64_t size_ = 0, modified_ns_ = 0;
};

/// A file that was opened and looked at, and is closed between reads: a process may have few
/// descriptors and a set thousands of files.
class SeenFile {
 public:
  explicit SeenFile(const DataFile& file)
      : path_(file.path()), size_(file.size()), modified_ns_(file.modified_ns()) {}

  const std::string& path() const { return path_; }
  std::int64_t size() const { return size_; }
  /// Errors: UserError(bad_data) where it is no longer what it was.
  DataFile open() const;

 private:
  std::string path_;
  std::int64_t size_, modified_ns_;
};

}  // namespace fourfold::data
