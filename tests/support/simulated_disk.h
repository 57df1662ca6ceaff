// A disk in memory that fails when told to, and that can lose power: what was not synced is then
// gone, or there in part. Header only.
#pragma once

#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "base/file_system.h"
#include "base/format.h"

namespace fourfold::test {

/// Thrown by every operation from the instant on at which the process is dead.
class Killed : public std::exception {
 public:
  const char* what() const noexcept override { return "killed"; }
};

class SimulatedDisk final : public FileSystem {
 public:
  using Bytes = std::vector<std::byte>;

  /// Operation number `at` (from 0) of all that change the disk kills the process, half done where
  /// it writes; or fails with `error` on it and on the `times` - 1 that follow.
  struct Plan {
    std::optional<std::int64_t> kill_at, fail_at;
    int error = EIO;
    std::int64_t times = 1;
  };
  void set_plan(const Plan& plan) {
    const std::lock_guard lock(mutex_);
    plan_ = plan;
    operations_ = 0;
    is_dead_ = false;
  }
  /// The operations since the plan was set.
  std::int64_t operations() const { return operations_; }

  /// What is left of unsynced changes when power is lost.
  enum class Loss { none, all, some };
  void lose_power(Loss loss, std::uint64_t seed = 0) {
    std::mt19937_64 random(seed);
    const auto keeps = [&] {
      return loss == Loss::none || (loss == Loss::some && random() % 2 == 0);
    };
    // A journal moves a name from one folder to another as a whole or not at all.
    for (const Moved& move : moved_) {
      if (keeps()) {
        move.settle();
      } else {
        move.target->now.erase(move.to);
        move.source->now[move.from] = move.node;
      }
    }
    moved_.clear();
    for (auto& [path, names] : folders_) {
      std::set<std::string> all;
      for (const auto& [name, node] : names.now) all.insert(name);
      for (const auto& [name, node] : names.synced) all.insert(name);
      std::map<std::string, bool> is_kept;
      for (const std::string& name : all) {
        const auto [entry, is_new] = is_kept.emplace(names.latest(name), false);
        if (is_new) entry->second = keeps();
        if (entry->second) continue;
        const auto old = names.synced.find(name);
        if (old == names.synced.end())
          names.now.erase(name);
        else
          names.now[name] = old->second;
      }
      names.sync();
    }
    for (const auto& node : nodes_)
      if (!keeps()) node->now = node->synced;
  }

  /// For tests that do damage.
  Bytes& bytes(const std::string& path) { return file(path, ENOENT)->now; }

  std::unique_ptr<Writer> create(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    operate(path);
    Names& names = folder_of(path);
    if (names.now.contains(name_of(path))) refuse(path, EEXIST);
    auto node = std::make_shared<Node>();
    nodes_.push_back(node);
    names.now[name_of(path)] = node;
    return std::make_unique<DiskWriter>(*this, path, node);
  }
  std::unique_ptr<Writer> reopen(const std::string& path, std::int64_t bytes) override {
    const std::lock_guard lock(mutex_);
    operate(path);
    auto node = file(path, ENOENT);
    if (std::cmp_less(node->now.size(), bytes)) refuse(path, EIO);
    node->now.resize(static_cast<std::size_t>(bytes));
    return std::make_unique<DiskWriter>(*this, path, node);
  }
  std::unique_ptr<Reader> open(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    return std::make_unique<DiskReader>(*this, path, file(path, ENOENT));
  }
  void make_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    operate(path);
    Names& names = folder_of(path);
    if (names.now.contains(name_of(path))) refuse(path, EEXIST);
    auto node = std::make_shared<Node>();
    node->folder = format("#{}", ++num_folders_);
    names.now[name_of(path)] = node;
    folders_[node->folder];
  }
  void rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    operate(from);
    Names& source = folder_of(from);
    const auto entry = source.now.find(name_of(from));
    if (entry == source.now.end()) refuse(from, ENOENT);
    Names& target = folder_of(to);
    const auto old = target.now.find(name_of(to));
    if (old != target.now.end() && !old->second->folder.empty() &&
        !folders_.at(old->second->folder).now.empty())
      refuse(to, ENOTEMPTY);
    const auto node = entry->second;
    source.now.erase(entry);
    target.now[name_of(to)] = node;
    if (&source != &target) {
      moved_.push_back({&source, name_of(from), &target, name_of(to), node});
      return;
    }
    source.renamed.erase(name_of(to));  // else names could go round in a ring
    source.renamed[name_of(from)] = name_of(to);
  }
  void sync_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    operate(path);
    Names& names = folders_.at(folder_id(path));
    for (const Moved& move : moved_)
      if (move.source == &names || move.target == &names) move.settle();
    std::erase_if(
        moved_, [&](const Moved& move) { return move.source == &names || move.target == &names; });
    names.sync();
  }
  void remove_file(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    operate(path);
    file(path, ENOENT);
    folder_of(path).now.erase(name_of(path));
  }
  void remove_directory(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    operate(path);
    if (!folders_.at(folder_id(path)).now.empty()) refuse(path, ENOTEMPTY);
    folder_of(path).now.erase(name_of(path));
  }
  std::vector<Entry> list(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    std::vector<Entry> entries;
    for (const auto& [name, node] : folders_.at(folder_id(path)).now)
      entries.push_back({name, !node->folder.empty()});
    return entries;
  }
  bool exists(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (is_dead_) throw Killed();
    try {
      return folder_of(path).now.contains(name_of(path));
    } catch (const FileError&) {
      return false;
    }
  }
  bool is_folder(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (is_dead_) throw Killed();
    try {
      folder_id(path);
      return true;
    } catch (const FileError&) {
      return false;
    }
  }
  std::int64_t free_bytes(const std::string& /*path*/) override { return std::int64_t{1} << 40; }

 private:
  /// A file, or the way to a folder.
  struct Node {
    Bytes now, synced;
    std::string folder;  // id
  };
  struct Names {
    std::map<std::string, std::shared_ptr<Node>> now, synced;
    std::map<std::string, std::string> renamed;  // since they were synced

    void sync() {
      synced = now;
      renamed.clear();
    }
    /// A rename is kept or lost as a whole: no folder has two names, and none loses both.
    const std::string& latest(const std::string& name) const {
      const auto next = renamed.find(name);
      return next == renamed.end() ? name : latest(next->second);
    }
  };

  /// A name that went to another folder, not synced yet. Folders stay where they are in the map.
  struct Moved {
    Names* source;
    std::string from;
    Names* target;
    std::string to;
    std::shared_ptr<Node> node;

    void settle() const {
      source->synced.erase(from);
      target->synced[to] = node;
    }
  };

  class DiskWriter final : public Writer {
   public:
    DiskWriter(SimulatedDisk& disk, std::string path, std::shared_ptr<Node> node)
        : disk_(disk), path_(std::move(path)), node_(std::move(node)) {}
    void write(std::span<const std::byte> bytes) override {
      const std::lock_guard lock(disk_.mutex_);
      const bool was_dead = disk_.is_dead_;
      try {
        disk_.operate(path_);
      } catch (const std::exception&) {
        // A write may be cut off in the middle.
        if (!was_dead) append(bytes.first(bytes.size() / 2));
        throw;
      }
      append(bytes);
    }
    void sync() override {
      const std::lock_guard lock(disk_.mutex_);
      disk_.operate(path_);
      node_->synced = node_->now;
    }
    void close() override {
      const std::lock_guard lock(disk_.mutex_);
      disk_.operate(path_);
    }

   private:
    void append(std::span<const std::byte> bytes) {
      node_->now.insert(node_->now.end(), bytes.begin(), bytes.end());
    }
    SimulatedDisk& disk_;
    std::string path_;
    std::shared_ptr<Node> node_;
  };

  class DiskReader final : public Reader {
   public:
    DiskReader(SimulatedDisk& disk, std::string path, std::shared_ptr<Node> node)
        : disk_(disk), path_(std::move(path)), node_(std::move(node)) {}
    std::int64_t size() const override { return static_cast<std::int64_t>(node_->now.size()); }
    void read(std::int64_t offset, std::span<std::byte> into) const override {
      const std::lock_guard lock(disk_.mutex_);
      if (disk_.is_dead_) throw Killed();
      const auto begin = static_cast<std::size_t>(offset);
      if (begin + into.size() > node_->now.size())
        throw FileError(ExitCode::no_checkpoint, format("{}: the file has shrunk", path_), 0);
      if (!into.empty()) std::memcpy(into.data(), node_->now.data() + begin, into.size());
    }

   private:
    SimulatedDisk& disk_;
    std::string path_;
    std::shared_ptr<Node> node_;
  };

  [[noreturn]] static void refuse(const std::string& path, int error) {
    // As the system's: that nothing is there says what is there.
    throw FileError(error == ENOENT ? ExitCode::no_checkpoint : ExitCode::storage,
                    format("{}: {}", path, std::generic_category().message(error)), error);
  }

  /// Counts an operation that changes the disk; it may be the one that fails.
  void operate(const std::string& path) {
    if (is_dead_) throw Killed();
    const std::int64_t number = operations_++;
    if (plan_.kill_at && number >= *plan_.kill_at) {
      is_dead_ = true;
      throw Killed();
    }
    if (plan_.fail_at && number >= *plan_.fail_at && number < *plan_.fail_at + plan_.times)
      refuse(path, plan_.error);
  }

  static std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  /// The id of the folder at a path; "/" is the root.
  std::string folder_id(const std::string& path) {
    std::string id = "#0";
    std::size_t begin = 1;
    while (begin < path.size()) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      const auto& names = folders_.at(id).now;
      const auto entry = names.find(path.substr(begin, end - begin));
      if (entry == names.end() || entry->second->folder.empty()) refuse(path, ENOENT);
      id = entry->second->folder;
      begin = end + 1;
    }
    return id;
  }
  Names& folder_of(const std::string& path) {
    return folders_.at(folder_id(path.substr(0, path.rfind('/'))));
  }
  std::shared_ptr<Node> file(const std::string& path, int error) {
    if (is_dead_) throw Killed();
    const Names& names = folder_of(path);
    const auto entry = names.now.find(name_of(path));
    if (entry == names.now.end() || !entry->second->folder.empty()) refuse(path, error);
    return entry->second;
  }

  mutable std::mutex mutex_;
  Plan plan_;
  std::int64_t operations_ = 0, num_folders_ = 0;
  bool is_dead_ = false;
  std::vector<std::shared_ptr<Node>> nodes_;
  std::map<std::string, Names> folders_{{"#0", {}}};
  std::vector<Moved> moved_;
};

}  // namespace fourfold::test
