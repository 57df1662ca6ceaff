#include "base/atomic_folder.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold {
namespace {

TEST(AtomicFolder, nothing_is_left_without_a_commit) {
  const TemporaryFolder folder;
  {
    const AtomicFolder made(folder.file("a"));
    made.write("x", "text");
    EXPECT_FALSE(file_exists(folder.file("a")));
  }
  EXPECT_EQ(folder.num_files(), 0U);
}

TEST(AtomicFolder, a_commit_shows_all_files_also_in_an_empty_folder) {
  const TemporaryFolder folder;
  make_directories(folder.file("b"));
  for (const char* name : {"a", "b/", "new/deep"}) {
    AtomicFolder made(folder.file(name));
    made.write("x", "text");
    made.commit();
    EXPECT_EQ(read_file(folder.file(name) + "/x"), "text");
  }
  EXPECT_EQ(folder.num_files(), 3U);
}

TEST(AtomicFolder, what_is_there_already_is_refused_and_stays) {
  const TemporaryFolder folder;
  make_directories(folder.file("full"));
  write_bytes(folder.file("full/x"), "old");
  write_bytes(folder.file("file"), "old");
  std::filesystem::create_symlink("nowhere", folder.file("link"));
  for (const char* name : {"full", "file", "link"}) {
    const std::string message =
        user_error(ExitCode::output_in_use, [&] { AtomicFolder made(folder.file(name)); });
    EXPECT_NE(message.find(name), std::string::npos);
  }
  AtomicFolder late(folder.file("late"));
  write_bytes(folder.file("late"), "old");
  user_error(ExitCode::output_in_use, [&] { late.commit(); });
  EXPECT_EQ(read_file(folder.file("full/x")) + read_file(folder.file("late")), "oldold");
}

}  // namespace
}  // namespace fourfold
