// A cluster's arithmetic: where devices meet, what a message gets, what a product reaches.
#include "machine/cluster.h"

#include <gtest/gtest.h>

namespace fourfold::machine {
namespace {

/// Two racks of three hosts of four devices.
Cluster racks() {
  Cluster cluster;
  cluster.levels = {{"nvlink", 4, 1e-6, 100, 300, 0, {}},
                    {"rack", 3, 2e-6, 25, 80, 0, {}},
                    {"core", 2, 3e-6, 25, 10, 0, {}}};
  return cluster;
}

TEST(Cluster, devices_are_the_product_of_all_levels) {
  EXPECT_EQ(racks().devices(), 24);
  EXPECT_EQ(racks().devices_below(0), 1);
  EXPECT_EQ(racks().devices_below(1), 4);
  EXPECT_EQ(racks().devices_below(2), 12);
  EXPECT_EQ(Cluster{}.devices(), 1);
  Cluster shared = racks();
  shared.ranks_per_device = 2;
  EXPECT_EQ(shared.ranks(), 48);
}

TEST(Cluster, devices_meet_at_the_lowest_level_that_has_both) {
  EXPECT_EQ(racks().meeting_level(5, 5), std::nullopt);
  EXPECT_EQ(racks().meeting_level(4, 7), 0);
  EXPECT_EQ(racks().meeting_level(3, 4), 1);
  EXPECT_EQ(racks().meeting_level(0, 11), 1);
  EXPECT_EQ(racks().meeting_level(11, 12), 2);
}

TEST(Cluster, a_message_has_the_link_where_it_meets_or_the_narrowest_port_on_its_way) {
  EXPECT_EQ(racks().pair_bytes_per_s(0, 1), 100);
  EXPECT_EQ(racks().pair_bytes_per_s(0, 4), 25);
  EXPECT_EQ(racks().pair_bytes_per_s(0, 12), 10) << "the port of the core";
}

TEST(Cluster, a_pair_of_units_with_links_of_its_own_has_those) {
  Cluster cluster = racks();
  cluster.levels[0].pairs = {{0, 40, 0, 100}, {40, 0, 100, 0}, {0, 100, 0, 40}, {100, 0, 40, 0}};
  EXPECT_EQ(cluster.pair_bytes_per_s(0, 1), 40);
  EXPECT_EQ(cluster.pair_bytes_per_s(4, 7), 100) << "of the second host";
  EXPECT_EQ(cluster.pair_bytes_per_s(0, 2), 100) << "by way of others";
}

TEST(Cluster, programs_reach_a_share_of_links_and_ports) {
  Cluster cluster = racks();
  cluster.levels[0].share = 0.5;
  EXPECT_EQ(cluster.pair_bytes_per_s(0, 1), 50);
  EXPECT_EQ(cluster.pair_bytes_per_s(0, 4), 25) << "the port of a device has 150";
  cluster.levels[1].share = 0.1;
  EXPECT_EQ(cluster.pair_bytes_per_s(0, 4), 2.5);
  cluster.levels[0].pairs = {{0, 40, 0, 100}, {40, 0, 100, 0}, {0, 100, 0, 40}, {100, 0, 40, 0}};
  EXPECT_EQ(cluster.pair_bytes_per_s(0, 1), 20);
}

TEST(Cluster, a_narrow_element_takes_more_bytes_in_a_collective_where_the_cluster_says_so) {
  Cluster cluster = racks();
  EXPECT_EQ(cluster.widened(2), 1);
  cluster.least_element_bytes = 4;
  EXPECT_EQ(cluster.widened(2), 2);
  EXPECT_EQ(cluster.widened(4), 1);
  EXPECT_EQ(cluster.widened(8), 1);
  EXPECT_EQ(cluster.widened(0), 1) << "not known";
}

TEST(Cluster, a_products_rate_is_read_between_points_on_a_logarithmic_scale) {
  const ComputeRate rate{DType::f32, 1000, {{100, 0.2}, {10000, 0.6}}};
  EXPECT_DOUBLE_EQ(product_flops_per_s(rate, 100), 200);
  EXPECT_DOUBLE_EQ(product_flops_per_s(rate, 1000), 400);
  EXPECT_DOUBLE_EQ(product_flops_per_s(rate, 10000), 600);
  EXPECT_DOUBLE_EQ(product_flops_per_s(rate, 1), 200) << "as at the first point";
  EXPECT_DOUBLE_EQ(product_flops_per_s(rate, 1e9), 600) << "as at the last point";
  EXPECT_DOUBLE_EQ(product_flops_per_s({DType::f32, 1000, {}}, 1), 1000) << "without points";
}

TEST(Cluster, a_measured_group_is_found_by_kind_ranks_and_stride) {
  Cluster cluster = racks();
  cluster.groups = {{Collective::all_reduce, 4, 1, 0, 5}, {Collective::all_reduce, 4, 2, 0, 7}};
  EXPECT_EQ(cluster.measured(Collective::all_reduce, 4, 2)->bytes_per_s, 7);
  EXPECT_EQ(cluster.measured(Collective::all_gather, 4, 2), nullptr);
  EXPECT_EQ(cluster.measured(Collective::all_reduce, 2, 2), nullptr);
}

TEST(Cluster, times_of_a_measured_group_lie_between_those_of_sizes) {
  MeasuredGroup group{Collective::all_reduce, 4, 1, 2, 5};
  EXPECT_DOUBLE_EQ(group.seconds(10), 4) << "a line, without times";
  group.times = {{100, 3}, {10000, 300}};
  EXPECT_DOUBLE_EQ(group.seconds(100), 3);
  EXPECT_DOUBLE_EQ(group.seconds(1000), 30);
  EXPECT_DOUBLE_EQ(group.seconds(10000), 300);
  EXPECT_DOUBLE_EQ(group.seconds(10010), 302) << "the rate goes on";
  EXPECT_DOUBLE_EQ(group.seconds(50), 2.5) << "from the latency on";
  group.latency_s = 9;
  EXPECT_DOUBLE_EQ(group.seconds(50), 3) << "what less took cannot take longer";
}

TEST(Cluster, a_measured_group_stands_for_those_that_lie_in_as_many_units_of_each_level) {
  Cluster cluster = racks();
  cluster.groups = {{Collective::all_reduce, 2, 1, 1e-6, 100, {}},
                    {Collective::all_reduce, 2, 4, 2e-6, 25, {}},
                    {Collective::all_gather, 2, 2, 1e-6, 90, {}}};
  const auto stride_for = [&](std::int64_t ranks, std::int64_t stride) {
    const MeasuredGroup* found = cluster.measured_alike(Collective::all_reduce, ranks, stride);
    return found == nullptr ? 0 : found->stride;
  };
  EXPECT_EQ(stride_for(2, 1), 1);
  EXPECT_EQ(stride_for(2, 2), 1) << "both members on one host";
  EXPECT_EQ(stride_for(2, 8), 4) << "on two hosts of a rack";
  EXPECT_EQ(stride_for(2, 12), 0) << "in two racks";
  EXPECT_EQ(stride_for(3, 4), 0) << "of another number of members";
  cluster.levels[1].pairs.assign(3, std::vector<double>(3, 25));
  EXPECT_EQ(stride_for(2, 8), 0) << "hosts are not joined alike";
  EXPECT_EQ(stride_for(2, 4), 4);
}

TEST(Cluster, a_measured_kernel_makes_its_calls_longer_than_the_rates_say) {
  Device device;
  device.memory_bytes_per_s = 100;
  device.rates = {{DType::f32, 1000, {}}};
  device.kernels = {{"contract", DType::f32, {{100, 4000, 8}, {400, 4000, 4}}}};
  EXPECT_DOUBLE_EQ(kernel_s(device, "contract", DType::f32, 4000, 100), 8);
  EXPECT_DOUBLE_EQ(kernel_s(device, "contract", DType::f32, 8000, 50), 16) << "twice as long";
  EXPECT_DOUBLE_EQ(kernel_s(device, "contract", DType::f32, 4000, 200), 6) << "half way of logs";
  EXPECT_DOUBLE_EQ(kernel_s(device, "contract", DType::f32, 0, 1000), 10) << "as the rates say";
  EXPECT_DOUBLE_EQ(kernel_s(device, "contract", DType::f64, 4000, 100), 1) << "no rate of f64";
  EXPECT_DOUBLE_EQ(kernel_s(device, "attention", DType::f32, 4000, 100), 4);
}

}  // namespace
}  // namespace fourfold::machine
