#include "data/work_lock.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "base/file.h"
#include "unit/checkpoint/temporary_folder.h"
#include "unit/data/expect_error.h"

namespace fourfold::data {
namespace {

TEST(WorkLock, one_has_a_folder_until_it_is_done_and_an_empty_folder_goes_away) {
  const TemporaryFolder folder;
  const std::string work = folder.file("set.partial");
  std::optional<WorkLock> lock(work);
  EXPECT_TRUE(std::filesystem::is_directory(work));
  const auto message = user_error(ExitCode::output_in_use, [&] { WorkLock another(work); });
  expect_words(message, {work, "another process works there"});
  lock.reset();
  EXPECT_FALSE(std::filesystem::exists(work));
  lock.emplace(work);
  write_file_atomic(work + "/tokens", "half");
  lock.reset();
  EXPECT_TRUE(std::filesystem::exists(work + "/tokens"));
}

}  // namespace
}  // namespace fourfold::data
