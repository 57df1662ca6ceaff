#include "comm/memory_killer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace fourfold::comm {
namespace {

TEST(MemoryKiller, its_count_is_read_where_the_kernel_has_one) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("fourfold-vmstat-" + std::to_string(getpid()));
  std::ofstream(path) << "nr_free_pages 17\noom_kill 3\nthp_fault_alloc 9\n";
  EXPECT_EQ(memory_kills(path), 3);
  std::ofstream(path) << "nr_free_pages 17\n";
  EXPECT_FALSE(memory_kills(path).has_value());
  std::filesystem::remove(path);
  EXPECT_FALSE(memory_kills(path).has_value());
}

TEST(MemoryKiller, only_what_it_has_ended_since_is_told) {
  EXPECT_EQ(memory_kill_notice(3, 3), "");
  EXPECT_EQ(memory_kill_notice({}, 3), "");
  EXPECT_EQ(memory_kill_notice(3, {}), "");
  EXPECT_NE(memory_kill_notice(3, 4).find("has ended 1 process on this host since the job began"),
            std::string::npos);
  EXPECT_NE(memory_kill_notice(3, 5).find("has ended 2 processes"), std::string::npos);
}

}  // namespace
}  // namespace fourfold::comm
