// A folder with configuration files for one test, and the text of the error that loading them
// gives.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/config.h"

namespace fourfold::config {

class Scratch {
 public:
  Scratch() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "fourfold-config-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(folder_); }

  /// The path of a new file.
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = join_path(folder_, name);
    std::ofstream(path) << text;  // not flushed to the disk: these tests write hundreds
    return path;
  }

 private:
  std::string folder_;
};

/// Loads one file with this text.
inline Config load_text(const std::string& text, const std::vector<std::string>& sets = {}) {
  const Scratch scratch;
  const std::vector<std::string> files = {scratch.write("a.yaml", text)};
  return load(files, sets);
}

/// What load() reports, with the folder taken out of paths; "" when it reports nothing.
inline std::string problems_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  const Scratch scratch;
  const std::vector<std::string> files = {scratch.write("a.yaml", text)};
  const std::string folder = files[0].substr(0, files[0].size() - std::string("a.yaml").size());
  try {
    load(files, sets);
    return "";
  } catch (const UserError& error) {
    const bool is_of_grid = dynamic_cast<const UnfitGrid*>(&error) != nullptr;
    EXPECT_EQ(error.code(), is_of_grid ? ExitCode::does_not_fit : ExitCode::bad_config);
    std::string result = error.what();
    for (auto at = result.find(folder); at != result.npos; at = result.find(folder))
      result.erase(at, folder.size());
    return result;
  }
}

/// The number of problems in a report.
inline std::size_t count_problems(const std::string& report) {
  std::size_t count = 0;
  for (auto at = report.find(": error: "); at != report.npos; at = report.find(": error: ", at + 1))
    ++count;
  return count;
}

}  // namespace fourfold::config
