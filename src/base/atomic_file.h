// A large file written in pieces that appears under its name only when it is whole and on the disk.
// Small texts: write_file_atomic in file.h.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/descriptor.h"

namespace fourfold {

/// Throws UserError(storage) for an errno that writing `path` met: the reason and what to do.
[[noreturn]] void fail_writing(const std::string& path, int error);

/// Where something is to be written there must be a file, also by a link, or nothing: never a pipe,
/// which waits for a reader, nor a device, a folder or a link to nothing. Errors:
/// UserError(storage) that says what is there.
void require_file_or_nothing(const std::string& path);

/// Writes to a temporary sibling of `path`; `commit` flushes and renames it. Without a commit the
/// sibling is removed and `path` stays as it was. Where `path` is a link to a file, that file is
/// replaced and the link stays. Errors: UserError(storage), also as require_file_or_nothing.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void commit();

 private:
  std::string path_, sibling_;
  Descriptor descriptor_;
};

}  // namespace fourfold
