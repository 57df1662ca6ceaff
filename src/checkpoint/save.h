// Saves the state of a job: a copy of each rank's part in memory, files written beside the steps
// that follow, and a commit by one rank when all files are on the disk.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "checkpoint/state.h"
#include "checkpoint/store.h"
#include "comm/world.h"

namespace fourfold::checkpoint {

struct SaveResult {
  std::int64_t step = 0;
  std::string path;
  std::string error;                  // empty: committed
  ExitCode code = ExitCode::storage;  // of the error
  std::int64_t bytes = 0;             // of all files
};

/// The digests of all tensors.
Digests digests_in(const Manifest& manifest);

/// One at a time. All ranks of the world call each function together, with null where there is but
/// one; the store matters on rank 0 alone, its file system on all. Everything passed must outlive
/// the saver.
class Saver {
 public:
  explicit Saver(Store& store, comm::World* world = nullptr) : store_(store), world_(world) {}
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  /// Waits for the files under way; they are not committed.
  ~Saver();

  /// Takes the memory for copies of this program's state now, instead of at the first save.
  void reserve(const program::Program& program);
  /// The digests of the state that this job began with: of a checkpoint that was loaded.
  void set_last(std::int64_t step, Digests digests);

  /// Copies the state and begins to write it. The facts are rank 0's, without tensors and files.
  /// `expected`, if not empty, are the digests that the state has: a save whose bytes have others
  /// fails; so does one that has the digests of the save before, though steps were done between.
  /// Finite is what the facts say and every number that was copied is. Requires that no save is
  /// under way. Memory: owned_bytes. Time: that of the copy.
  void start(const Manifest& facts, const program::Program& program, const BufferReads& bytes_of,
             Digests expected = {});
  bool is_under_way() const { return is_under_way_; }
  /// True if this rank's file of it is written, or given up. For any rank alone.
  bool is_written() const { return is_written_; }
  /// Waits until every rank's file is written, and commits them or gives them up.
  SaveResult finish();

 private:
  struct Part {
    const program::Buffer* buffer;
    Box box;
    std::size_t first_byte;
    std::uint64_t digest = 0;
  };
  void take_snapshot(const program::Program& program, const BufferReads& bytes_of);
  void write_parts();
  void examine(Part& part, std::span<const std::byte> memory);
  void check_news(const Manifest& manifest) const;
  std::string report() const;
  SaveResult commit(const std::vector<std::string>& reports);

  Store& store_;
  comm::World* world_;
  bool is_under_way_ = false;
  Manifest facts_;
  Digests expected_;
  std::string folder_;  // of the files; empty where it could not be made
  std::string error_;   // of this rank
  ExitCode error_code_ = ExitCode::storage;
  std::vector<std::byte> snapshot_;
  std::vector<Part> parts_;
  StoredFile file_;
  bool is_finite_ = true;  // what this rank copied
  std::int64_t last_step_ = -1;
  Digests last_;  // on rank 0: of the last save that was committed
  std::atomic<bool> is_written_{false};
  std::thread writer_;
};

}  // namespace fourfold::checkpoint
