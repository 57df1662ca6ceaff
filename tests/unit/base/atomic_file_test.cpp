#include "base/atomic_file.h"

#include <gtest/gtest.h>

#include <string>

#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold {
namespace {

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(AtomicFile, TheFileAppearsAtTheCommitWithAllItsPieces) {
  const TemporaryFolder folder;
  AtomicFile file(folder.file("a"));
  file.write(as_bytes("one "));
  file.write(as_bytes("two"));
  EXPECT_FALSE(std::filesystem::exists(folder.file("a")));
  file.commit();
  EXPECT_EQ(read_bytes(folder.file("a")), "one two");
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(AtomicFile, WithoutACommitTheOldFileStaysAndNothingElseIsLeft) {
  const TemporaryFolder folder;
  write_bytes(folder.file("a"), "old");
  {
    AtomicFile file(folder.file("a"));
    file.write(as_bytes("new"));
  }
  EXPECT_EQ(read_bytes(folder.file("a")), "old");
  EXPECT_EQ(folder.num_files(), 1U);
}

TEST(AtomicFile, ACommitReplacesTheOldFile) {
  const TemporaryFolder folder;
  write_bytes(folder.file("a"), "old and longer");
  AtomicFile file(folder.file("a"));
  file.write(as_bytes("new"));
  file.commit();
  EXPECT_EQ(read_bytes(folder.file("a")), "new");
}

TEST(AtomicFile, AMissingFolderIsAStorageErrorNamingThePath) {
  const TemporaryFolder folder;
  const std::string path = folder.file("no/such/a");
  expect_words(user_error(ExitCode::storage, [&] { AtomicFile file(path); }), {path});
}

TEST(AtomicFile, AFullDiskIsAStorageErrorThatSaysSo) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  const TemporaryFolder folder;
  const std::string path = folder.file("a");
  std::filesystem::create_symlink("/dev/full", path + ".tmp-" + std::to_string(::getpid()));
  AtomicFile file(path);
  expect_words(user_error(ExitCode::storage, [&] { file.write(as_bytes("x")); }), {path, "space"});
}

TEST(AtomicFile, ATargetThatIsAFolderIsAStorageErrorAndTheSiblingIsRemoved) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("a/b"));
  {
    AtomicFile file(folder.file("a"));
    user_error(ExitCode::storage, [&] { file.commit(); });
  }
  EXPECT_EQ(folder.num_files(), 1U);
}

}  // namespace
}  // namespace fourfold
