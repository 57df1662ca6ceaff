#include "measure/peak_cache.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/format.h"

namespace fourfold::measure {
namespace {

namespace fs = std::filesystem;

class PeakCacheTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  PeakCache cache(int threads = 2) const { return {folder_.string(), DType::f32, threads}; }

  fs::path folder_ = fs::temp_directory_path() / format("fourfold-peaks-{}", getpid());
};

TEST_F(PeakCacheTest, the_best_of_three_measurements_is_remembered) {
  EXPECT_EQ(cache().read().flops_per_s, 0);
  EXPECT_EQ(cache().add(1.5e11).flops_per_s, 1.5e11);
  EXPECT_FALSE(cache().read().is_settled());
  cache().add(2.77e11);
  const KnownPeak third = cache().add(1.5e11);
  EXPECT_EQ(third.flops_per_s, 2.77e11);
  EXPECT_TRUE(third.is_settled());
  EXPECT_EQ(cache().read().flops_per_s, 2.77e11);
  EXPECT_EQ(cache(1).read().measurements, 0) << "of another number of threads";
}

TEST_F(PeakCacheTest, a_peak_that_a_run_exceeded_is_measured_again_and_never_falls) {
  for (int i = 0; i < 3; ++i) cache().add(1.5e11);
  cache().doubt();
  EXPECT_FALSE(cache().read().is_settled());
  EXPECT_EQ(cache().read().flops_per_s, 1.5e11);
  EXPECT_EQ(cache().add(1.4e11).flops_per_s, 1.5e11);
}

TEST_F(PeakCacheTest, what_cannot_be_read_or_written_is_measured_at_each_start) {
  cache().add(1e11);
  ASSERT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
  const std::string file = fs::directory_iterator(folder_)->path().string();
  for (const char* text : {"", "{", "[]", "{\"machine\":1,\"flops_per_s\":2.5,\"measurements\":3}",
                           "{\"machine\":\"another\",\"flops_per_s\":2.5,\"measurements\":3}"}) {
    write_file_atomic(file, text);
    EXPECT_EQ(cache().read().measurements, 0) << text;
  }
  // A rate that no CPU has, and a file that never answers.
  const std::string known = (cache().add(1e11), read_file(file));
  std::string damaged = known;
  damaged.replace(damaged.find("100000000000"), 1, "9999999");
  write_file_atomic(file, damaged);
  EXPECT_EQ(cache().read().measurements, 0) << damaged;
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(cache().read().measurements, 0);
  EXPECT_EQ(cache().add(1e11).measurements, 1);
  const PeakCache nowhere("/proc/none", DType::f32, 2), none("", DType::f32, 2);
  for (const PeakCache& broken : {nowhere, none}) {
    EXPECT_EQ(broken.add(1e11).flops_per_s, 1e11);
    EXPECT_EQ(broken.read().measurements, 0);
    broken.doubt();
  }
}

TEST(CacheFolder, is_the_users_as_the_environment_says) {
  const auto with = [](const std::string& cache, const std::string& home) {
    return cache_folder([=](const std::string& name) -> std::optional<std::string> {
      const std::string& value = name == "XDG_CACHE_HOME" ? cache : home;
      return value.empty() ? std::nullopt : std::optional(value);
    });
  };
  EXPECT_EQ(with("/c", "/h"), "/c/fourfold");
  EXPECT_EQ(with("", "/h"), "/h/.cache/fourfold");
  EXPECT_EQ(with("relative", "/h"), "/h/.cache/fourfold");
  EXPECT_EQ(with("", ""), "");
}

}  // namespace
}  // namespace fourfold::measure
