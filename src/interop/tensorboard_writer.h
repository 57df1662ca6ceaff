// An event file of TensorBoard, written beside a run that nothing in it can stop or slow down.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/file_system.h"

namespace fourfold::interop {

/// Records are queued, and a thread of this class writes them. A queue that is full drops what
/// comes. A file that cannot be written is left as it is, because a part of a record may stand
/// there: the next records begin another one, after a pause that doubles with each failure.
class TensorboardWriter {
 public:
  struct Options {
    std::string folder;                 // made where it is missing; its parent is there
    std::string host;                   // a part of the file's name
    std::size_t most_queued = 8 << 20;  // bytes
    double flush_interval_s = 1;
    double pause_s = 5;  // after the first failure
  };
  /// Called from the writing thread: once, for the first failure.
  using Warn = std::function<void(const std::string&)>;
  TensorboardWriter(FileSystem& files, Options options, Warn warn);
  /// Writes what is queued, but does not wait for a disk that fails.
  ~TensorboardWriter();
  TensorboardWriter(const TensorboardWriter&) = delete;
  TensorboardWriter& operator=(const TensorboardWriter&) = delete;

  /// Never waits for a disk.
  void add(std::string record);
  /// Written, or given up on: how many records were dropped so far.
  std::int64_t finish();

 private:
  void work();
  void write(const std::string& records, std::int64_t count);
  void open();

  FileSystem& files_;
  Options options_;
  Warn warn_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string queued_;            // guarded by mutex_
  std::int64_t num_queued_ = 0;   // "
  std::int64_t num_dropped_ = 0;  // "
  bool ends_ = false;             // "
  // Only the writing thread uses these.
  std::unique_ptr<FileSystem::Writer> file_;
  int num_files_ = 0;
  double pause_s_ = 0;
  double blocked_until_s_ = 0;
  bool has_warned_ = false;
  std::thread thread_;
};

}  // namespace fourfold::interop
