#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(AtomicFile, the_file_appears_at_the_commit_with_all_its_pieces) {
  const TemporaryFolder folder;
  AtomicFile file(folder.file("a"));
  file.write(as_bytes("one "));
  file.write(as_bytes("two"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("a")));
  file.commit();
  EXPECT_EQ(read_bytes(folder.file("a")), "one two");
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(AtomicFile, without_a_commit_the_old_file_stays_and_nothing_else_is_left) {
  const TemporaryFolder folder;
  write_bytes(folder.file("a"), "old");
  {
    AtomicFile file(folder.file("a"));
    file.write(as_bytes("new"));
  }
  EXPECT_EQ(read_bytes(folder.file("a")), "old");
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(AtomicFile, a_commit_replaces_the_old_file) {
  const TemporaryFolder folder;
  write_bytes(folder.file("a"), "old and longer");
  AtomicFile file(folder.file("a"));
  file.write(as_bytes("new"));
  file.commit();
  EXPECT_EQ(read_bytes(folder.file("a")), "new");
}

TEST(AtomicFile, only_a_file_or_nothing_is_written_to) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("folder"));
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/null", folder.file("device"));
  std::filesystem::create_symlink(folder.file("gone"), folder.file("nowhere"));
  const std::size_t before = folder.num_files();
  for (const auto& [name, is] : {std::pair("folder", "is a folder"),
                                 {"pipe", "is a pipe"},
                                 {"device", "is a device"},
                                 {"nowhere", "is a link to nothing"}}) {
    const std::string path = folder.file(name);
    expect_words(user_error(ExitCode::storage, [&] { AtomicFile file(path); }),
                 {path, is, "choose another place"});
  }
  EXPECT_EQ(folder.num_files(), before);
  EXPECT_TRUE(std::filesystem::is_fifo(folder.file("pipe")));
}

TEST(AtomicFile, a_link_to_a_file_stays_and_the_file_is_replaced) {
  const TemporaryFolder folder;
  write_bytes(folder.file("a"), "old");
  std::filesystem::create_symlink("a", folder.file("link"));
  AtomicFile file(folder.file("link"));
  file.write(as_bytes("new"));
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_EQ(read_bytes(folder.file("a")), "new");
  EXPECT_EQ(folder.num_files(), 2U);
}

TEST(AtomicFile, a_missing_folder_is_a_storage_error_naming_the_path) {
  const TemporaryFolder folder;
  const std::string path = folder.file("no/such/a");
  expect_words(user_error(ExitCode::storage, [&] { AtomicFile file(path); }), {path});
}

TEST(AtomicFile, a_full_disk_is_a_storage_error_that_says_so) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  const TemporaryFolder folder;
  const std::string path = folder.file("a");
  std::filesystem::create_symlink("/dev/full", path + ".tmp-" + std::to_string(::getpid()));
  AtomicFile file(path);
  expect_words(user_error(ExitCode::storage, [&] { file.write(as_bytes("x")); }), {path, "space"});
}

TEST(AtomicFile, a_target_that_is_a_folder_is_a_storage_error_and_the_sibling_is_removed) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder.file("a"));
    std::filesystem::create_directories(folder.file("a/b"));
    user_error(ExitCode::storage, [&] { file.commit(); });
  }
  EXPECT_EQ(folder.num_files(), 1U);
}

}  // namespace
}  // namespace fourfold
