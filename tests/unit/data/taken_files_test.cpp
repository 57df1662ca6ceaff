// Which files of a folder are read, and that nothing else in it is passed over in silence.
#include "data/taken_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/text_source.h"
#include "unit/data/expect_error.h"
#include "unit/data/token_files.h"

namespace fourfold::data {
namespace {

namespace fs = std::filesystem;

class TakenFilesTest : public DataFolderTest {
 protected:
  void SetUp() override {
    DataFolderTest::SetUp();
    fs::create_directories(path("set/real"));
    fs::create_directories(path("outside/shard"));
    write_bytes(path("set/real/a.txt"), "a");
    write_bytes(path("outside/shard/b.txt"), "b");
  }
};

TEST_F(TakenFilesTest, linked_folders_and_files_are_read) {
  fs::create_directory_symlink("../outside/shard", path("set/shard"));
  fs::create_symlink("../outside/shard/b.txt", path("set/c.txt"));
  const TakenFiles files = list_text_files({path("set")});
  EXPECT_EQ(files.taken, (std::vector<std::string>{path("set/c.txt"), path("set/real/a.txt"),
                                                   path("set/shard/b.txt")}));
  EXPECT_EQ(files.passed_over.count, 0);
  // One of the two names would do.
  ASSERT_EQ(files.repeated.count, 1);
  expect_words(files.repeated.first[0], {"set/shard/b.txt: is ", "set/c.txt again"});
  ASSERT_EQ(files.notes().size(), 1U);
  expect_words(files.notes()[0], {"1 file read twice"});
}

TEST_F(TakenFilesTest, a_link_to_a_folder_around_it_is_passed_over_and_named) {
  fs::create_directory_symlink("..", path("set/real/up"));
  fs::create_directory_symlink(path("set"), path("outside/back"));
  fs::create_directory_symlink(path("outside"), path("set/out"));
  const TakenFiles files = files_below(path("set"));
  EXPECT_EQ(files.taken,
            (std::vector<std::string>{path("set/out/shard/b.txt"), path("set/real/a.txt")}));
  EXPECT_EQ(files.passed_over.count, 2);
  expect_words(files.notes().at(0), {"2 names passed over", "set/real/up: is a link to a folder",
                                     "set/out/back: is a link to a folder"});
}

TEST_F(TakenFilesTest, hidden_names_and_pipes_are_counted_and_named) {
  write_bytes(path("set/.hidden"), "h");
  write_bytes(path("set/.named"), "n");
  fs::create_directories(path("set/.git/objects"));
  ASSERT_EQ(::mkfifo(path("set/pipe").c_str(), 0600), 0);
  const TakenFiles files = list_text_files({path("set"), path("set/.named")});
  EXPECT_EQ(files.taken, (std::vector<std::string>{path("set/real/a.txt"), path("set/.named")}));
  EXPECT_EQ(files.passed_over.count, 3);
  expect_words(files.notes().at(0), {"3 names passed over", "set/.git: is hidden",
                                     "set/.hidden: is hidden", "set/pipe: is a pipe or device"});
}

TEST_F(TakenFilesTest, a_link_that_leads_nowhere_is_an_error) {
  fs::create_symlink("nothing", path("set/lost"));
  expect_words(user_error(ExitCode::bad_data, [&] { files_below(path("set")); }),
               {"set/lost: is a link that leads nowhere", "bring what it leads to, or remove it"});
}

TEST_F(TakenFilesTest, a_folder_with_hidden_files_alone_says_so) {
  fs::create_directories(path("dark"));
  write_bytes(path("dark/.a"), "a");
  expect_words(user_error(ExitCode::bad_data, [&] { list_text_files({path("dark")}); }),
               {"has no files", "1 name passed over", ".a: is hidden"});
}

TEST_F(TakenFilesTest, a_file_that_is_named_twice_is_told) {
  fs::create_hard_link(path("set/real/a.txt"), path("set/real/again.txt"));
  const TakenFiles files = list_text_files({path("set"), path("set/real/a.txt")});
  EXPECT_EQ(files.taken.size(), 3U);
  EXPECT_EQ(files.repeated.count, 2);
}

}  // namespace
}  // namespace fourfold::data
