// A folder for targets whose readers want files: in memory where the system has such a place.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace fourfold::fuzz {

/// Removed with its owner.
class Folder {
 public:
  Folder() {
    namespace fs = std::filesystem;
    const fs::path memory = "/dev/shm";
    const bool is_there = ::access(memory.c_str(), W_OK) == 0;
    path_ = (is_there ? memory : fs::temp_directory_path()) /
            ("fourfold-fuzz-" + std::to_string(::getpid()));
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  void clear() const {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }

 private:
  std::filesystem::path path_;
};

/// Makes the folder of the file too. Nothing waits for a disk.
inline void write(const std::string& path, std::string_view text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace fourfold::fuzz
