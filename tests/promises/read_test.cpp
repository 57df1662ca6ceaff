// How long it takes to read or refuse files that are made to take all time.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/stopwatch.h"
#include "base/yaml.h"
#include "checkpoint/cover.h"
#include "promises/promise.h"
#include "support/command.h"
#include "support/command_cost.h"
#include "support/hostile_files.h"
#include "support/many_columns.h"

namespace fourfold {
namespace {

using ReadPromise = FolderTest;

TEST_F(ReadPromise, bombs_are_refused_within_a_second) {
  const std::string file = path("a.yaml");
  const auto seconds_of = [&](const std::string& text) {
    write_file_atomic(file, text);
    return test::cost_of({"config", "check", file}).cpu_s;
  };
  const double usual_s = seconds_of(test::plain_config);
  double most_s = 0;
  for (const auto& [name, text] : test::config_bombs(file))
    most_s = std::max(most_s, seconds_of(text) - usual_s);
  test::expect_at_most("refuse any bomb among configurations, beyond a usual check", most_s, 1,
                       "s of CPU");
}

TEST(YamlPromise, hostile_files_are_read_or_refused_in_little_time) {
  double most_s = 0;
  for (const std::string& text : test::hostile_yaml()) {
    const Stopwatch watch;
    std::vector<Diagnostic> problems;
    parse_yaml(text, "a.yaml", problems);
    most_s = std::max(most_s, watch.seconds());
  }
  test::expect_at_most("read or refuse any hostile MiB of YAML", most_s, 2, "s");
}

TEST(CoverPromise, of_many_slices_takes_little_time) {
  checkpoint::StoredTensor tensor = checkpoint::tensor_of_columns(200'000);
  const Stopwatch watch;
  EXPECT_EQ(checkpoint::find_gap_or_overlap(tensor), "");
  checkpoint::make_columns_short(tensor);
  EXPECT_NE(checkpoint::find_gap_or_overlap(tensor), "");
  test::expect_at_most("look for gaps between 200,000 slices of a tensor, twice", watch.seconds(),
                       5, "s");
}

}  // namespace
}  // namespace fourfold
