// `fourfold machines`: the list, one machine, a file of one's own, and faults.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "machine/cluster_file.h"
#include "machine/known_clusters.h"
#include "support/in_process.h"

namespace fourfold {
namespace {

using test::run_here;

void expect_narrow(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

TEST(Machines, the_list_has_every_known_machine_on_a_line) {
  const test::Outcome outcome = run_here("machines");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const machine::KnownCluster& known : machine::known_clusters())
    EXPECT_NE(outcome.output.find("\n" + known.name + " "), std::string::npos) << known.name;
  expect_narrow(outcome.output);
}

TEST(Machines, one_machine_is_shown_with_levels_memory_and_rates) {
  const test::Outcome outcome = run_here("machines perlmutter-40gb");
  EXPECT_EQ(outcome.code, 0) << outcome.text;
  for (const char* shown :
       {"6,144 devices of 1 rank each", "40.0 GiB at 1.56 TB/s",
        "bf16        312 TFLOP/s: 35% at 2.1 GFLOP",
        "nvlink              4        4    3.4 us              80 GB/s    240 GB/s      240 GB/s",
        "slingshot       1,536    6,144     14 us            23.5 GB/s     94 GB/s       94 GB/s"})
    EXPECT_NE(outcome.output.find(shown), std::string::npos) << outcome.output << shown;
}

TEST(Machines, every_machine_is_shown_within_100_columns) {
  for (const machine::KnownCluster& known : machine::known_clusters()) {
    const test::Outcome outcome = run_here("machines " + known.name);
    EXPECT_EQ(outcome.code, 0) << outcome.text;
    expect_narrow(outcome.output);
  }
}

TEST(Machines, json_has_all_figures_in_bytes_and_seconds) {
  const test::Outcome outcome = run_here("machines atp-ic1 --format json");
  ASSERT_EQ(outcome.code, 0) << outcome.text;
  const Json json = parse_json(outcome.output, "json");
  EXPECT_EQ(json.find("devices")->as_integer(), 8);
  EXPECT_EQ(json.find("device")->find("memory_bytes")->as_double(), 80 * 0x1p30);
  EXPECT_EQ(json.find("levels")->items()[0].find("latency_s")->as_double(), 2.5e-6);
  EXPECT_EQ(json.find("groups")->items()[0].find("bytes_per_s")->as_double(), 4.95e9);
  const Json list = parse_json(run_here("machines --format json").output, "json");
  EXPECT_EQ(list.items().size(), machine::known_clusters().size());
}

TEST(Machines, a_file_of_ones_own_is_shown_and_its_faults_are_told) {
  const auto folder =
      std::filesystem::temp_directory_path() / format("fourfold-machines-{}", getpid());
  std::filesystem::create_directories(folder);
  const std::string file = (folder / "mine.yaml").string();
  std::string text = machine::to_yaml(machine::load_cluster("workstation"));
  write_file_atomic(file, text);
  EXPECT_NE(run_here("machines " + file).output.find("mine: A workstation"), std::string::npos);
  text.replace(text.find("GiB"), 3, "Gig");
  write_file_atomic(file, text);
  const test::Outcome fault = run_here("machines " + file);
  EXPECT_EQ(fault.code, 2);
  EXPECT_NE(fault.text.find("mine.yaml:5:11: error: memory is '24 Gig', expected a size"),
            std::string::npos)
      << fault.text;
  std::filesystem::remove_all(folder);
}

TEST(Machines, an_unknown_name_is_refused_with_the_nearest_one) {
  const test::Outcome outcome = run_here("machines fronteer");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.text.find("no machine is called 'fronteer'; did you mean frontier?"),
            std::string::npos)
      << outcome.text;
}

}  // namespace
}  // namespace fourfold
