// The folder of a run's checkpoints: which there are, how a new one appears in it, and which go.
// One rank does all of this; the files of a checkpoint: save.h and load.h.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/file_system.h"
#include "checkpoint/manifest.h"

namespace fourfold::checkpoint {

/// Network file systems show what another host has made a little later. Only for files of which
/// this rank was told that they are there: rank 0 looks at the folder without patience, and
/// decides. Longer than the time for which clients of NFS believe what they last saw of a folder
/// (60 s is its default acdirmax; a name that is opened is asked for again, mostly at once).
inline constexpr double default_patience_s = 20;

/// Calls `what` again while the file that it needs is not seen yet, for up to `seconds`.
template <class What>
auto with_patience(double seconds, const What& what) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto pause = std::chrono::milliseconds(10);;
       pause = std::min(2 * pause, std::chrono::milliseconds(500))) {
    try {
      return what();
    } catch (const FileError& error) {
      const bool may_appear = error.error() == ENOENT || error.error() == ESTALE;
      if (!may_appear || Clock::now() + pause > deadline) throw;
    }
    std::this_thread::sleep_for(pause);
  }
}

/// How many checkpoints stay.
struct Retention {
  std::int64_t keep_last = 3;        // the newest healthy ones, at least 2
  std::int64_t keep_every = 0;       // also those whose step is a multiple; 0: none
  std::set<std::int64_t> also = {};  // these stay too
  bool operator==(const Retention&) const = default;
};

/// A checkpoint whose manifest holds and whose files have their sizes. Their bytes are checked by
/// whoever reads them.
struct Found {
  std::string path;
  Manifest manifest;
};

/// A folder that looks like a checkpoint and is none.
struct Refused {
  std::string path, why;
  std::int64_t step = 0;  // by its name
};

class Store {
 public:
  /// Touches nothing yet. `files` must outlive the store. `patience_s`: how long to wait for a name
  /// that another rank has made or seen.
  Store(FileSystem& files, std::string folder, double patience_s = default_patience_s)
      : files_(files), folder_(std::move(folder)), patience_s_(patience_s) {}

  const std::string& folder() const { return folder_; }
  FileSystem& files() const { return files_; }
  double patience_s() const { return patience_s_; }

  /// The steps whose names there are, of folders or links to them, valid or not, the newest first.
  /// None without a folder.
  std::vector<std::int64_t> steps() const;
  std::string path_of(std::int64_t step) const;
  /// Reads and checks one. Errors: UserError(no_checkpoint); UserError(storage) where the system
  /// fails to read it, which says nothing of what it holds.
  Found open(std::int64_t step) const;
  /// The newest that is valid, and whichever newer ones are not. `before`: only those of earlier
  /// steps. Errors: UserError(storage) of a newer one, which may be valid.
  struct Newest {
    std::optional<Found> found;
    std::vector<Refused> refused;
  };
  Newest newest(std::optional<std::int64_t> before = std::nullopt) const;

  /// Makes the folder, with its parents in the run directory there, and removes what saves and
  /// removals of ended jobs have left. Only for a job that has the run directory to itself.
  void prepare();
  /// Removes every checkpoint, those of lines too: of a run that is to be overwritten.
  void clear();
  /// A run that goes back to an earlier step leaves a line of later saves beside it. Each line is a
  /// folder of checkpoints of its own here, line-1, line-2, ...: their paths, the first one first.
  std::vector<std::string> lines() const;
  /// Makes the folder of the next line, and returns its path.
  std::string begin_line();
  /// Moves the checkpoints of later steps into the folder of a line. The last of them moves last,
  /// so that after a crash at any instant the newest is the one of before or that of `step`.
  void set_aside_after(std::int64_t step, const std::string& line);
  /// An empty folder for the files of a new checkpoint, under a name that is no checkpoint's.
  std::string begin(std::int64_t step);
  /// Writes the manifest and gives the folder its name. When this returns the checkpoint survives
  /// any crash. One of that step that is there is left as it is, and the new one removed, if every
  /// byte of it holds.
  void commit(const std::string& begun, const Manifest& manifest);
  /// Replaces the manifest of a checkpoint that is there by one of the same step, tensors and
  /// files. At any instant the one or the other is there.
  void amend(const Manifest& manifest);
  /// Removes a folder that was begun; never throws.
  void abandon(const std::string& begun) noexcept;
  /// Removes the checkpoints that need not stay. Healthy are those that are finite and every byte
  /// of which has been read and held; those of earlier jobs are read for it, once. Nothing is
  /// removed while fewer than two healthy ones would be left, nor is `in_use` or what is
  /// protected. What could not be removed is said in the result, one a line, and stays for the next
  /// time.
  std::string prune(const Retention& retention, std::optional<std::int64_t> in_use = std::nullopt);
  /// From now on that one stays, in this job and in later ones, as long as its line stands in the
  /// file PROTECTED of the folder, with the reason. May run beside prune. Errors:
  /// UserError(storage).
  void protect(std::int64_t step, std::string_view why);
  /// Every byte of that one has been read by somebody, and held.
  void set_whole(std::int64_t step) { whole_.insert(step); }

 private:
  void remove(std::int64_t step);
  /// Writes a small file of the store's folder, or of another, all of it or none.
  void replace_note(std::string_view name, std::string_view text);
  void replace_file(const std::string& folder, std::string_view name, std::string_view text);
  std::string protected_text() const;
  std::set<std::int64_t> protected_steps() const;
  /// Valid, and every byte holds.
  bool is_whole(std::int64_t step);

  FileSystem& files_;
  std::string folder_;
  double patience_s_;
  std::set<std::int64_t> whole_;  // that need not be read again
};

/// What is said of a checkpoint that the system fails to read, and what to do.
std::string not_known(std::string_view problem);

/// "step-000001200".
std::string step_name(std::int64_t step);
std::optional<std::int64_t> parse_step_name(std::string_view name);

}  // namespace fourfold::checkpoint
