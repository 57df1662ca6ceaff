// Bandwidths of a mesh's axes: the worked numbers of ATP and the cases of AxoNN.
#include "machine/mesh_bandwidth.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "machine/known_clusters.h"

namespace fourfold::machine {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

/// N devices on one level with the group rate 1.
Cluster flat(std::int64_t devices) {
  Cluster cluster;
  cluster.levels = {{"switch", devices, 0, 1, 1, 0, {}}};
  return cluster;
}

/// A known machine by the rates of its links alone, as papers count.
Cluster by_links(const std::string& name) {
  Cluster cluster = load_cluster(name);
  for (Level& level : cluster.levels) level.share = 1;
  return cluster;
}

double cost(const Cluster& cluster, std::int64_t d1, std::int64_t d2) {
  return atp_seconds_per_byte(atp_bandwidths(cluster, d1, d2), d1, d2);
}

/// The i of the best ATP-i, which is the mesh (N / i, i).
std::int64_t best_of(const Cluster& cluster, std::int64_t devices) {
  std::int64_t best = 1;
  for (std::int64_t i = 2; i <= devices; i *= 2)
    if (cost(cluster, devices / i, i) < cost(cluster, devices / best, best)) best = i;
  return best;
}

TEST(MeshBandwidth, figure_7a_gives_12_5_and_200_gigabytes_for_8_by_2) {
  const AtpBandwidths got = atp_bandwidths(load_cluster("atp-fig7a"), 8, 2);
  EXPECT_DOUBLE_EQ(got.ring1, 12.5e9);
  EXPECT_DOUBLE_EQ(got.ring2, 200e9);
  EXPECT_DOUBLE_EQ(got.all_reduce1, 12.5e9 * 8 / 14);
  EXPECT_DOUBLE_EQ(got.all_reduce2, 200e9);
}

TEST(MeshBandwidth, no_more_groups_share_a_host_than_it_has_devices) {
  // Divided by all of d2 = 8 it would be 3.125.
  EXPECT_DOUBLE_EQ(atp_bandwidths(load_cluster("atp-fig7a"), 2, 8).ring1, 6.25e9);
  EXPECT_DOUBLE_EQ(atp_bandwidths(load_cluster("atp-fig7a"), 2, 8).ring2, 25e9);
  EXPECT_DOUBLE_EQ(atp_bandwidths(load_cluster("atp-fig7a"), 4, 4).ring1, 6.25e9);
  EXPECT_DOUBLE_EQ(atp_bandwidths(load_cluster("atp-fig7a"), 4, 4).ring2, 600e9);
}

TEST(MeshBandwidth, on_one_level_nothing_is_divided_and_the_cost_has_atps_closed_form) {
  for (const auto& [d1, d2] : {std::pair{8, 1}, {4, 2}, {2, 4}, {1, 8}, {16, 2}, {8, 16}}) {
    const AtpBandwidths got = atp_bandwidths(flat(d1 * d2), d1, d2);
    EXPECT_EQ(got.ring1, d1 == 1 ? unbounded : 1);
    EXPECT_EQ(got.ring2, d2 == 1 ? unbounded : 1);
    EXPECT_DOUBLE_EQ(cost(flat(d1 * d2), d1, d2), (14. * d2 + 4. * d1 - 18) / (d1 * d2));
  }
}

TEST(MeshBandwidth, the_best_mesh_of_one_level_costs_less_the_more_devices_there_are) {
  const double expected[] = {2, 3, 3.25, 2.625, 2.1875, 1.59375, 1.234375};
  std::int64_t devices = 2;
  for (const double best : expected) {
    EXPECT_DOUBLE_EQ(cost(flat(devices), devices / best_of(flat(devices), devices),
                          best_of(flat(devices), devices)),
                     best)
        << devices;
    devices *= 2;
  }
}

TEST(MeshBandwidth, one_dimension_is_best_for_4_devices_and_two_for_16) {
  EXPECT_EQ(best_of(load_cluster("atp-ic3"), 4), 1);
  EXPECT_EQ(best_of(load_cluster("atp-ic4"), 16), 2);
  EXPECT_EQ(best_of(load_cluster("atp-ic5"), 32), 4);
  EXPECT_EQ(best_of(load_cluster("atp-ic5"), 128), 8);
}

TEST(MeshBandwidth, pairs_by_nvlink_make_two_dimensions_best) {
  const Cluster cluster = load_cluster("atp-ic2");
  EXPECT_NEAR(cost(cluster, 8, 1) * 1e9, 0.0547, 5e-5);
  EXPECT_NEAR(cost(cluster, 4, 2) * 1e9, 0.0498, 5e-5);
  EXPECT_EQ(best_of(cluster, 8), 2);
}

TEST(MeshBandwidth, the_torus_gives_its_group_rate_to_whole_rings_and_one_link_to_two_neighbours) {
  const Cluster cluster = load_cluster("atp-ic6");
  EXPECT_DOUBLE_EQ(atp_bandwidths(cluster, 4, 4).ring1, 50e9);
  EXPECT_DOUBLE_EQ(atp_bandwidths(cluster, 4, 4).ring2, 50e9);
  EXPECT_DOUBLE_EQ(atp_bandwidths(cluster, 8, 2).ring2, 25e9);
}

TEST(MeshBandwidth, units_without_a_link_share_those_that_their_messages_pass) {
  // Ranks 0 and 2 of a ring: both links, each message passes two.
  EXPECT_DOUBLE_EQ(axis_bytes_per_s(load_cluster("atp-ic6"), {2, 2}), 25e9);
  Cluster apart = flat(4);
  apart.levels[0].pairs = {{0, 1, 0, 0}, {1, 0, 0, 0}, {0, 0, 0, 1}, {0, 0, 1, 0}};
  EXPECT_EQ(axis_bytes_per_s(apart, {2, 2}), 0) << "no way leads there";
}

TEST(MeshBandwidth, measured_rates_replace_what_the_levels_say) {
  const Cluster cluster = load_cluster("atp-ic1");
  const AtpBandwidths got = atp_bandwidths(cluster, 2, 4);
  EXPECT_DOUBLE_EQ(got.all_reduce1, 1.20e9);
  EXPECT_DOUBLE_EQ(got.all_reduce2, 4.95e9);
  EXPECT_DOUBLE_EQ(atp_bandwidths(cluster, 8, 1).all_reduce1, 0.97e9);
  EXPECT_NEAR(cost(cluster, 2, 4) / cost(cluster, 8, 1), 0.5450, 5e-5);
}

TEST(MeshBandwidth, an_axis_within_a_host_has_its_links_and_others_share_the_hosts_port) {
  // AxoNN, eq 10, on hosts of four: 300 GB/s within, 100 GB/s from host to host.
  const Cluster cluster = by_links("perlmutter-40gb");
  const auto got = axes_bytes_per_s(cluster, {2, 2, 2, 2});
  ASSERT_EQ(got.size(), 4U);
  EXPECT_DOUBLE_EQ(got[0], 100e9) << "one pair's links";
  EXPECT_DOUBLE_EQ(got[1], 100e9);
  EXPECT_DOUBLE_EQ(got[2], 25e9) << "4 groups share a host";
  EXPECT_DOUBLE_EQ(got[3], 25e9) << "not 8: a host has only 4 devices";
  EXPECT_DOUBLE_EQ(axes_bytes_per_s(cluster, {4, 8})[0], 300e9);
  EXPECT_DOUBLE_EQ(axes_bytes_per_s(cluster, {1, 8})[1], 100e9) << "a ring through two hosts";
  EXPECT_DOUBLE_EQ(axes_bytes_per_s(cluster, {2, 8})[1], 50e9) << "two rings share them";
  EXPECT_EQ(axes_bytes_per_s(cluster, {1, 1})[1], unbounded);
}

TEST(MeshBandwidth, groups_that_straddle_hosts_are_counted_one_by_one) {
  // AxoNN's case 1 holds that groups of 3 fit hosts of 4; those of ranks 3, 4, 5 and 6, 7, 8 do
  // not.
  const Cluster cluster = by_links("perlmutter-40gb");
  EXPECT_DOUBLE_EQ(axis_bytes_per_s(cluster, {3, 1}), 50e9) << "both are in the second host";
  EXPECT_DOUBLE_EQ(axis_bytes_per_s(cluster, {2, 3}), 25e9) << "4 groups are in the second host";
  EXPECT_DOUBLE_EQ(axis_bytes_per_s(cluster, {6, 1}), 50e9);
}

TEST(MeshBandwidth, ranks_of_one_device_do_not_use_links_and_share_its_port) {
  Cluster cluster = flat(4);
  cluster.ranks_per_device = 2;
  EXPECT_EQ(axis_bytes_per_s(cluster, {2, 1}), unbounded);
  EXPECT_DOUBLE_EQ(axis_bytes_per_s(cluster, {4, 2}), 0.5);
}

TEST(MeshBandwidth, programs_reach_a_share_of_the_rates_of_each_level) {
  for (const char* name : {"perlmutter-40gb", "atp-fig7a", "atp-ic6"}) {
    Cluster cluster = by_links(name);
    const std::vector<double> whole = axes_bytes_per_s(cluster, {2, 2, 2, 2});
    for (Level& level : cluster.levels) level.share = 0.5;
    const std::vector<double> half = axes_bytes_per_s(cluster, {2, 2, 2, 2});
    for (std::size_t axis = 0; axis < whole.size(); ++axis)
      EXPECT_DOUBLE_EQ(half[axis], whole[axis] / 2) << name << " " << axis;
  }
}

}  // namespace
}  // namespace fourfold::machine
