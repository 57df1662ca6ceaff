#include "base/file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace fourfold {
namespace {

/// A folder of this test's own, removed at its end.
class File : public testing::Test {
 protected:
  File() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "fourfold-file-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~File() override { std::filesystem::remove_all(folder_); }
  std::string in_folder(const std::string& name) const { return join_path(folder_, name); }
  std::string folder_;
};

template <class Action>
std::string error_of(ExitCode code, Action action) {
  try {
    action();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "no error";
}

TEST_F(File, what_was_written_is_read_back_byte_for_byte) {
  std::string bytes;
  for (int i = 0; i < 300'000; ++i) bytes += static_cast<char>(i % 251);
  for (const std::string& text : {std::string(), std::string("a\0b\n", 4), bytes}) {
    write_file_atomic(in_folder("file"), text);
    EXPECT_EQ(read_file(in_folder("file")), text);
  }
}

TEST_F(File, writing_leaves_no_other_file_behind) {
  write_file_atomic(in_folder("file"), "old");
  write_file_atomic(in_folder("file"), "new");
  const auto entries = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(File, a_missing_file_is_an_error_with_the_code_asked_for) {
  const auto text =
      error_of(ExitCode::bad_config, [&] { read_file(in_folder("none"), ExitCode::bad_config); });
  EXPECT_NE(text.find("none: cannot be read: No such file or directory; check the path"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(std::filesystem::current_path().string()), std::string::npos) << text;
}

TEST_F(File, a_folder_cannot_be_read_as_a_file) {
  const auto text = error_of(ExitCode::bad_data, [&] { read_file(folder_); });
  EXPECT_NE(text.find("Is a directory"), std::string::npos) << text;
}

TEST_F(File, writing_into_a_missing_folder_is_a_storage_error) {
  const auto text =
      error_of(ExitCode::storage, [&] { write_file_atomic(in_folder("no/file"), "x"); });
  EXPECT_NE(text.find("make its folder first"), std::string::npos) << text;
}

TEST_F(File, a_failed_rename_leaves_the_target_as_it_was) {
  make_directories(in_folder("target/inner"));
  error_of(ExitCode::storage, [&] { write_file_atomic(in_folder("target"), "x"); });
  EXPECT_TRUE(file_exists(in_folder("target/inner")));
  const auto entries = std::filesystem::directory_iterator(folder_);
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1);
}

TEST_F(File, directories_are_made_with_their_parents_and_may_exist) {
  make_directories(in_folder("a/b/c"));
  make_directories(in_folder("a/b/c"));
  EXPECT_TRUE(file_exists(in_folder("a/b/c")));
  write_file_atomic(in_folder("plain"), "");
  EXPECT_NE(error_of(ExitCode::storage, [&] { make_directories(in_folder("plain")); }), "no error");
  EXPECT_NE(error_of(ExitCode::storage, [&] { make_directories(in_folder("plain/x")); }),
            "no error");
}

TEST_F(File, paths_are_joined_and_made_absolute) {
  EXPECT_EQ(join_path("runs/a", "metrics.jsonl"), "runs/a/metrics.jsonl");
  EXPECT_EQ(join_path("runs", "/abs"), "/abs");
  EXPECT_EQ(absolute_path("/a/./b/../c"), "/a/c");
  EXPECT_EQ(absolute_path("x"), (std::filesystem::current_path() / "x").string());
}

}  // namespace
}  // namespace fourfold
