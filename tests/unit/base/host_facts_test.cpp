#include "base/host_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/format.h"

namespace fourfold {
namespace {

/// A folder that looks like mounted control groups.
class MemoryLimits : public ::testing::Test {
 protected:
  MemoryLimits()
      : root_(std::filesystem::temp_directory_path() / format("fourfold-groups-{}", getpid())) {}
  ~MemoryLimits() override { std::filesystem::remove_all(root_); }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << "\n";
  }
  /// The bytes left in each group, innermost first.
  std::vector<std::int64_t> left(const std::string& groups) const {
    write("groups", groups);
    std::vector<std::int64_t> result;
    for (const MemoryLimit& limit : memory_limits((root_ / "groups").string(), root_.string()))
      result.push_back(limit.limit_bytes - limit.used_bytes);
    return result;
  }
  std::filesystem::path root_;
};

TEST_F(MemoryLimits, of_version_2_are_those_of_all_groups_around) {
  write("job/step/memory.max", "1000");
  write("job/step/memory.current", "300");
  write("job/memory.max", "5000");
  write("job/memory.current", "400");
  write("job/memory.stat", "anon 100\ninactive_file 250\nfile 300");
  EXPECT_EQ(left("0::/job/step"), (std::vector<std::int64_t>{700, 4850}));
}

TEST_F(MemoryLimits, of_version_1_stand_in_a_folder_of_their_own) {
  write("memory/slurm/memory.limit_in_bytes", "1000");
  write("memory/slurm/memory.usage_in_bytes", "900");
  write("memory/slurm/memory.stat", "cache 500\ntotal_inactive_file 400");
  write("memory/memory.limit_in_bytes", "9223372036854771712");
  write("memory/memory.usage_in_bytes", "5");
  EXPECT_EQ(left("5:cpu:/slurm\n4:memory:/slurm\n0::/"), (std::vector<std::int64_t>{500}));
}

/// The same folders limit time.
TEST_F(MemoryLimits, beside_them_is_the_limit_on_the_time_of_cores) {
  const auto limit = [&](const std::string& groups) {
    write("groups", groups);
    return cpu_limit((root_ / "groups").string(), root_.string());
  };
  EXPECT_EQ(limit("0::/job/step"), std::nullopt);
  write("job/step/cpu.max", "max 100000");
  EXPECT_EQ(limit("0::/job/step"), std::nullopt);
  write("job/cpu.max", "250000 100000");
  EXPECT_EQ(limit("0::/job/step"), 2.5);
  write("cpu.max", "200000 100000");
  EXPECT_EQ(limit("0::/"), 2) << "a container sees its own group as the root";
  EXPECT_EQ(limit("0::/job/step"), 2);
}

TEST_F(MemoryLimits, beside_them_is_the_limit_on_time_of_version_1_too) {
  const auto limit = [&](const std::string& groups) {
    write("groups", groups);
    return cpu_limit((root_ / "groups").string(), root_.string());
  };
  write("cpu,cpuacct/pod/cpu.cfs_quota_us", "150000");
  write("cpu,cpuacct/pod/cpu.cfs_period_us", "100000");
  EXPECT_EQ(limit("4:cpu,cpuacct:/pod\n1:name=systemd:/pod"), 1.5);
  write("cpu,cpuacct/pod/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(limit("4:cpu,cpuacct:/pod"), std::nullopt);
}

TEST_F(MemoryLimits, without_a_limit_there_is_none) {
  write("job/memory.max", "max");
  write("job/memory.current", "300");
  EXPECT_TRUE(left("0::/job").empty());
  EXPECT_TRUE(left("").empty());
}

TEST(CoreList, neighbours_are_ranges) {
  EXPECT_EQ(core_list({0, 1, 2, 3}), "0-3");
  EXPECT_EQ(core_list({0, 1, 4, 6, 7}), "0-1,4,6-7");
  EXPECT_EQ(core_list({5}), "5");
  EXPECT_EQ(core_list({}), "");
}

}  // namespace
}  // namespace fourfold
