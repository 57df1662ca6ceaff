// What a tensor takes between the ranks of two stages, by closed form, beside the shares and ways
// that one can count by hand.
#include "search/transfer_forms.h"

#include <gtest/gtest.h>

namespace fourfold::search {
namespace {

/// Hosts of four devices with ports of 10 bytes a second, and links of 100 inside.
machine::Cluster hosts(std::int64_t count) {
  machine::Cluster cluster;
  cluster.device.name = "device";
  cluster.levels = {{.name = "host",
                     .units = 4,
                     .latency_s = 0,
                     .link_bytes_per_s = 100,
                     .port_bytes_per_s = 100,
                     .group_bytes_per_s = 0,
                     .pairs = {}},
                    {.name = "network",
                     .units = count,
                     .latency_s = 0,
                     .link_bytes_per_s = 10,
                     .port_bytes_per_s = 10,
                     .group_bytes_per_s = 0,
                     .pairs = {}}};
  return cluster;
}

TEST(TransferForms, a_tensor_that_is_whole_everywhere_enters_each_host_once) {
  // One host to one host; the four devices there have it over links ten times as fast.
  EXPECT_DOUBLE_EQ(transfer_seconds(hosts(2), 1000, {0, 4, {}}, {4, 4, {}}, 1), 100);
  // A chain of two hosts in one piece takes twice as long, in 100 pieces a hundredth more.
  EXPECT_DOUBLE_EQ(transfer_seconds(hosts(4), 1000, {0, 8, {}}, {8, 8, {}}, 1), 200);
  EXPECT_DOUBLE_EQ(transfer_seconds(hosts(4), 1000, {0, 8, {}}, {8, 8, {}}, 100), 101);
}

TEST(TransferForms, hosts_that_want_shares_of_their_own_take_them_at_once) {
  // Samples cut in two, a half for each host.
  const std::vector<machine::AxisGroup> outer = {{2, 4}};
  EXPECT_DOUBLE_EQ(transfer_seconds(hosts(4), 1000, {0, 8, outer}, {8, 8, outer}, 1), 50);
  // The other way round each host wants both halves.
  const std::vector<machine::AxisGroup> inner = {{2, 1}};
  EXPECT_DOUBLE_EQ(transfer_seconds(hosts(4), 1000, {0, 8, inner}, {8, 8, inner}, 1), 100);
}

TEST(TransferForms, stages_of_one_host_send_over_the_links_of_devices) {
  EXPECT_DOUBLE_EQ(transfer_seconds(hosts(2), 1000, {0, 2, {{2, 1}}}, {2, 2, {{2, 1}}}, 1), 5);
  // The next two ranks are on another host.
  EXPECT_DOUBLE_EQ(transfer_seconds(hosts(2), 1000, {2, 2, {{2, 1}}}, {4, 2, {{2, 1}}}, 1), 100);
}

}  // namespace
}  // namespace fourfold::search
