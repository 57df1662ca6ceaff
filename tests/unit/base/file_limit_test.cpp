#include "base/file_limit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "support/few_files.h"

namespace fourfold {
namespace {

TEST(FileLimit, is_raised_to_the_hard_one_and_never_lowered) {
  const test::FewFiles few;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const auto expected = static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_max, 65'536));
  EXPECT_EQ(raise_file_limit(), expected);
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(static_cast<std::int64_t>(limit.rlim_cur), expected);
  EXPECT_EQ(raise_file_limit(), expected);
}

}  // namespace
}  // namespace fourfold
