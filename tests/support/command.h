// Runs the program as a person does, and keeps what it said.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "base/format.h"

namespace fourfold {

struct CommandResult {
  int code = 0;
  std::string text;  // of standard output, and of what the shell sends there
};

/// A command of the shell, in the top folder of the sources.
inline CommandResult run_command(const std::string& command) {
  CommandResult result;
  FILE* pipe = popen(format("cd {} && {}", FOURFOLD_SOURCE_DIR, command).c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.text.append(buffer.data(), n);
  const int status = pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return result;
}

/// Our binary with these words; its text is that of both streams.
inline CommandResult run_fourfold(const std::string& arguments) {
  return run_command(format("{} {} 2>&1", FOURFOLD_BINARY, arguments));
}

/// A folder of its own for each test, removed afterwards.
class FolderTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ =
        std::filesystem::temp_directory_path() / format("fourfold-{}-{}", info->name(), getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

 private:
  std::filesystem::path folder_;
};

}  // namespace fourfold
