#include "data/work_lock.h"

#include <gtest/gtest.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

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

template <int error>
int fails_with(int /*descriptor*/, int /*operation*/) {
  errno = error;
  return -1;
}

int interrupted_once(int descriptor, int operation) {
  static bool was_interrupted = false;
  if (std::exchange(was_interrupted, true)) return ::flock(descriptor, operation);
  errno = EINTR;
  return -1;
}

TEST(WorkLock, a_file_system_without_locks_is_told_as_that_and_the_work_goes_on) {
  const TemporaryFolder folder;
  for (const auto lock : {fails_with<ENOSYS>, fails_with<EOPNOTSUPP>, fails_with<ENOLCK>}) {
    const WorkLock work(folder.file("set.partial"), lock);
    expect_words(work.note(), {"set.partial: this file system gives no lock (",
                               "see that no other process writes there"});
  }
  EXPECT_EQ(WorkLock(folder.file("set.partial")).note(), "");
  EXPECT_EQ(WorkLock(folder.file("set.partial"), interrupted_once).note(), "");
  expect_words(user_error(ExitCode::output_in_use,
                          [&] { WorkLock(folder.file("set.partial"), fails_with<EWOULDBLOCK>); }),
               {"another process works there"});
}

}  // namespace
}  // namespace fourfold::data
