// A folder of files that appears under its name only when all of them are whole and on the disk.
// One file: atomic_file.h.
#pragma once

#include <string>
#include <string_view>

namespace fourfold {

/// Files are written into a temporary sibling of `path`, which `commit` renames. Without a commit
/// the sibling is removed, and nothing is left. Errors: UserError(output_in_use) where there is
/// something at `path` already, other than an empty folder; UserError(storage).
class AtomicFolder {
 public:
  explicit AtomicFolder(std::string path);
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;
  ~AtomicFolder();

  /// Receives the files until commit.
  const std::string& staging() const { return sibling_; }
  /// A small text in it.
  void write(const std::string& name, std::string_view text) const;
  void commit();

 private:
  std::string path_, sibling_;
  bool is_committed_ = false;
};

}  // namespace fourfold
