// A cluster as it is shown: what a person reads, and what a program does.
#include "machine/cluster_text.h"

#include <gtest/gtest.h>

#include <string>

#include "base/text.h"
#include "machine/known_clusters.h"

namespace fourfold::machine {
namespace {

Cluster small_cluster() {
  Cluster cluster = load_cluster("perlmutter-40gb");
  cluster.name = "mine";
  cluster.levels[1].pairs = {{0, 1e9, 2e9}, {1e9, 0, 3e9}, {2e9, 3e9, 0}};
  cluster.levels[1].units = 3;
  cluster.levels[1].share = 1;
  cluster.groups = {{Collective::all_reduce, 4, 2, 20e-6, 8e9}};
  return cluster;
}

TEST(ClusterText, lines_of_every_known_machine_have_at_most_a_hundred_columns) {
  for (const KnownCluster& known : known_clusters())
    for (const std::string& line : split(cluster_text(load_cluster(known.name)), '\n'))
      EXPECT_LE(line.size(), 100U) << known.name << ": " << line;
}

TEST(ClusterText, links_of_several_rates_show_the_least_and_the_most) {
  EXPECT_NE(cluster_text(small_cluster()).find("1 GB/s to 3 GB/s"), std::string::npos)
      << cluster_text(small_cluster());
}

TEST(ClusterText, what_was_measured_has_a_table_and_else_none) {
  EXPECT_NE(cluster_text(small_cluster()).find("\nall_reduce           4       2      20 us"),
            std::string::npos)
      << cluster_text(small_cluster());
  EXPECT_EQ(cluster_text(load_cluster("perlmutter-40gb")).find("\nmeasured"), std::string::npos);
}

TEST(ClusterText, each_operation_beside_products_has_its_calls_or_none) {
  const std::string measured = cluster_text(load_cluster("dgx-h200")),
                    estimated = cluster_text(load_cluster("perlmutter-40gb"));
  const std::string none = "any   none   1: as a product\n";
  EXPECT_NE(measured.find("\nattention                             bf16      2   2.11 to 2.19\n"),
            std::string::npos)
      << measured;
  EXPECT_NE(measured.find("\nconvolution                            " + none), std::string::npos);
  EXPECT_NE(estimated.find("\nattention                              " + none), std::string::npos)
      << estimated;
  EXPECT_NE(
      cluster_json(load_cluster("dgx-h200")).dump().find("\"unmeasured\":[\"attention_cached\","),
      std::string::npos);
}

TEST(ClusterText, json_has_all_digits_in_bytes_and_seconds) {
  Cluster cluster = small_cluster();
  cluster.device.memory_bytes_per_s = 1e12 / 3;
  const std::string text = cluster_json(cluster).dump();
  EXPECT_NE(text.find("333333333333.3333"), std::string::npos) << text;
  EXPECT_NE(text.find("\"devices\":12"), std::string::npos) << text;
  EXPECT_NE(text.find("\"latency_s\":2e-05"), std::string::npos) << text;
}

}  // namespace
}  // namespace fourfold::machine
