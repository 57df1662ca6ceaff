// A disk seen late, and a disk that answers late. Header only.
#pragma once

#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/file_system.h"
#include "base/format.h"

namespace fourfold::test {

/// Everything goes to another file system; a base for views of it.
class View : public FileSystem {
 public:
  explicit View(FileSystem& files) : files_(files) {}

  std::unique_ptr<Writer> create(const std::string& path) override {
    look_at(path);
    return files_.create(path);
  }
  std::unique_ptr<Writer> reopen(const std::string& path, std::int64_t bytes) override {
    look_at(path);
    return files_.reopen(path, bytes);
  }
  std::unique_ptr<Reader> open(const std::string& path) override {
    look_at(path);
    return files_.open(path);
  }
  void make_directory(const std::string& path) override {
    look_at(path);
    files_.make_directory(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    look_at(from);
    files_.rename(from, to);
  }
  void sync_directory(const std::string& path) override {
    look_at(path);
    files_.sync_directory(path);
  }
  void remove_file(const std::string& path) override {
    look_at(path);
    files_.remove_file(path);
  }
  void remove_directory(const std::string& path) override {
    look_at(path);
    files_.remove_directory(path);
  }
  std::vector<Entry> list(const std::string& path) override {
    look_at(path);
    return files_.list(path);
  }
  bool exists(const std::string& path) override { return files_.exists(path); }
  bool is_folder(const std::string& path) override { return files_.is_folder(path); }
  std::int64_t free_bytes(const std::string& path) override { return files_.free_bytes(path); }

 protected:
  FileSystem& files() const { return files_; }

 private:
  /// Before each operation.
  virtual void look_at(const std::string& path) = 0;
  FileSystem& files_;
};

/// As a client of a network file system whose cache is old: what stands below a new folder is not
/// there, or stale, until `seconds` after it was first asked for.
class StaleView final : public View {
 public:
  StaleView(FileSystem& files, double seconds, int error)
      : View(files), delay_(std::chrono::duration<double>(seconds)), error_(error) {}
  int refusals() const { return refusals_; }
  bool exists(const std::string& path) override { return is_seen(path) && files().exists(path); }

 private:
  bool is_seen(const std::string& path) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    const std::string folder = path.substr(0, path.rfind('/'));
    return now - asked_.try_emplace(folder, now).first->second >= delay_;
  }
  void look_at(const std::string& path) override {
    if (is_seen(path)) return;
    ++refusals_;
    throw FileError(ExitCode::no_checkpoint,
                    format("{}: {}", path, std::generic_category().message(error_)), error_);
  }

  std::chrono::duration<double> delay_;
  int error_;
  std::mutex mutex_;
  std::map<std::string, std::chrono::steady_clock::time_point> asked_;
  int refusals_ = 0;
};

/// Each operation takes up to so long, by chance.
class DelayedView final : public View {
 public:
  DelayedView(FileSystem& files, std::chrono::microseconds most, std::uint64_t seed)
      : View(files), most_(most), random_(seed) {}

 private:
  void look_at(const std::string&) override {
    std::chrono::microseconds pause;
    {
      const std::lock_guard lock(mutex_);
      pause = most_ * static_cast<std::int64_t>(random_() % 1024) / 1024;
    }
    std::this_thread::sleep_for(pause);
  }

  std::chrono::microseconds most_;
  std::mutex mutex_;
  std::mt19937_64 random_;
};

}  // namespace fourfold::test
