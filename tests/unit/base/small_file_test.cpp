#include "base/small_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace fourfold {
namespace {

class SmallFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "fourfold-small-XXXXXX").string();
    dir_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string write(const std::string& text) const {
    std::ofstream(dir_ / "file", std::ios::binary) << text;
    return (dir_ / "file").string();
  }
  /// Why it is not read; "" when it is.
  static std::string reason(const std::string& path, std::size_t most_bytes = 10) {
    const auto text = read_small_file(path, most_bytes);
    const auto* fault = std::get_if<FileFault>(&text);
    if (fault == nullptr) return "";
    EXPECT_NE(fault->advice, "");
    return fault->reason;
  }

  std::filesystem::path dir_;
};

TEST_F(SmallFile, all_bytes_are_read_up_to_the_limit) {
  const std::string text("a\0\xff\n", 4);
  EXPECT_EQ(std::get<std::string>(read_small_file(write(text), 4)), text);
  EXPECT_EQ(std::get<std::string>(read_small_file(write(""), 0)), "");
  EXPECT_EQ(reason(write(text), 3), "is larger than 3 B");
}

TEST_F(SmallFile, a_file_that_says_it_is_empty_is_read_to_its_end) {
  const std::string file = "/proc/self/status";
  const auto text = std::get<std::string>(read_small_file(file, std::size_t{1} << 20));
  EXPECT_TRUE(text.starts_with("Name:"));
  EXPECT_TRUE(text.ends_with('\n'));
  EXPECT_NE(text.find("\nvoluntary_ctxt_switches:"), std::string::npos) << "its last lines";
  EXPECT_EQ(reason(file), "is larger than 10 B");
}

TEST_F(SmallFile, whatever_is_no_file_is_refused_without_waiting) {
  const std::string pipe = (dir_ / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(reason(pipe), "is a pipe, not a file");
  EXPECT_EQ(reason("/dev/zero"), "is a device, not a file");
  EXPECT_EQ(reason(dir_.string()), "is a folder");
  EXPECT_EQ(reason((dir_ / "none").string()), "cannot be read: No such file or directory");
  EXPECT_EQ(reason(write("x") + "/y"), "cannot be read: Not a directory");
  std::filesystem::create_symlink(pipe, dir_ / "link");
  EXPECT_EQ(reason((dir_ / "link").string()), "is a pipe, not a file");
}

}  // namespace
}  // namespace fourfold
