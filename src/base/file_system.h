// Operations on files one by one, so that each of them can be made to fail. For what must survive a
// crash or a full disk; small texts: write_file_atomic in file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace fourfold {

/// An operation that the system refused: its errno, and a text that says which path and why.
class FileError : public UserError {
 public:
  FileError(ExitCode code, const std::string& text, int error)
      : UserError(code, text), error_(error) {}
  int error() const { return error_; }

 private:
  int error_;
};

/// Paths are those of the operating system. Every function but `exists` and `is_folder` throws
/// FileError: with code `storage` where it writes and where the system fails to read, and
/// `no_checkpoint` where it finds other than what was to be read. For several threads at once.
class FileSystem {
 public:
  class Writer {
   public:
    virtual ~Writer() = default;
    /// Writes all of the bytes, after those written before.
    virtual void write(std::span<const std::byte> bytes) = 0;
    /// Once this returns, what was written survives a loss of power.
    virtual void sync() = 0;
    /// Network file systems tell of lost writes here.
    virtual void close() = 0;
  };
  class Reader {
   public:
    virtual ~Reader() = default;
    virtual std::int64_t size() const = 0;
    /// Exactly these bytes. A file that is shorter than it was is an error and no signal.
    virtual void read(std::int64_t offset, std::span<std::byte> into) const = 0;
  };
  struct Entry {
    std::string name;
    bool is_directory = false;  // itself: a link to a folder is none
    bool operator==(const Entry&) const = default;
  };

  virtual ~FileSystem() = default;

  /// A new file; one that exists already, also as a link, is an error.
  virtual std::unique_ptr<Writer> create(const std::string& path) = 0;
  /// A file that is there, cut to its first `bytes` bytes, to be continued after them. One that has
  /// fewer is an error.
  virtual std::unique_ptr<Writer> reopen(const std::string& path, std::int64_t bytes) = 0;
  /// A regular file, under any of its names; symbolic links, devices and pipes are refused.
  virtual std::unique_ptr<Reader> open(const std::string& path) = 0;
  /// A new folder, whose parent exists.
  virtual void make_directory(const std::string& path) = 0;
  /// Atomic; replaces a file, and a folder only when it is empty.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  /// Makes names made, renamed and removed in the folder survive a loss of power.
  virtual void sync_directory(const std::string& path) = 0;
  virtual void remove_file(const std::string& path) = 0;
  /// An empty folder.
  virtual void remove_directory(const std::string& path) = 0;
  /// Sorted by name.
  virtual std::vector<Entry> list(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  /// Itself, not by a link.
  virtual bool is_folder(const std::string& path) = 0;
  /// The bytes that this user may still write in the file system of this folder.
  virtual std::int64_t free_bytes(const std::string& path) = 0;
};

/// The operating system's.
FileSystem& real_files();

/// All of a file.
std::string read_text(FileSystem& files, const std::string& path);
/// Creates, writes, syncs and closes a new file.
void write_new_file(FileSystem& files, const std::string& path, std::string_view text);
/// A folder of files, without subfolders; of a link to one, the link alone goes. What is gone
/// already is no error.
void remove_folder_of_files(FileSystem& files, const std::string& path);

}  // namespace fourfold
