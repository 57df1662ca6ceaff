// Routes beside the closed forms of machine/mesh_bandwidth.h, which count groups and no flows.
#include "simulate/route.h"

#include <gtest/gtest.h>

#include "machine/known_clusters.h"
#include "machine/mesh_bandwidth.h"

namespace fourfold::simulate {
namespace {

/// The groups of an axis that tile the first ranks of a cluster.
std::vector<Ranks> groups_of(machine::AxisGroup axis, std::int64_t count) {
  std::vector<Ranks> groups;
  for (std::int64_t first = 0; first < count; first += axis.ranks * axis.stride)
    for (std::int64_t inner = 0; inner < axis.stride; ++inner) {
      Ranks& group = groups.emplace_back();
      for (std::int64_t i = 0; i < axis.ranks; ++i)
        group.push_back(Rank(static_cast<std::size_t>(first + inner + i * axis.stride)));
    }
  return groups;
}

TEST(Route, rings_of_all_groups_of_an_axis_have_the_bandwidth_of_the_closed_form) {
  std::size_t count = 0;
  for (const machine::KnownCluster& known : machine::known_clusters()) {
    const machine::Cluster cluster = machine::load_cluster(known.name);
    const Links links(cluster);
    const std::int64_t most = std::min<std::int64_t>(cluster.ranks(), 128);
    for (std::int64_t stride = 1; stride <= most; stride *= 2)
      for (std::int64_t ranks = 2; ranks * stride <= most; ranks *= 2) {
        const machine::AxisGroup axis{ranks, stride};
        const std::int64_t tile = ranks * stride;
        const std::vector<Ranks> groups = groups_of(axis, most / tile * tile);
        std::vector<const Ranks*> pointers;
        for (const Ranks& group : groups) pointers.push_back(&group);
        const Route route = RouteMaker(links).ring(pointers);
        const double wanted = machine::axis_bytes_per_s(cluster, axis);
        EXPECT_NEAR(1 / route.alone_s, wanted, 1e-9 * wanted)
            << known.name << ": " << ranks << " ranks, stride " << stride;
        ++count;
      }
  }
  EXPECT_GE(count, 300U);
}

TEST(Route, a_collective_is_charged_the_bytes_and_passes_of_its_row) {
  const Route route{.latency_s = 3e-6, .tree_latency_s = 1e-6, .link_s = 1e-9, .alone_s = 1e-9};
  for (const std::size_t members : {2U, 3U, 8U}) {
    const auto n = static_cast<double>(members);
    for (const CollectiveFacts& row : collectives) {
      const Way large = choose_way(route, row.kind, members, 1e9, nullptr),
                small = choose_way(route, row.kind, members, 1, nullptr);
      EXPECT_DOUBLE_EQ(large.latency_s, row.passes * route.latency_s) << row.name;
      // What goes directly has flows of a member's own bytes in its route.
      EXPECT_DOUBLE_EQ(large.flow_bytes, row.path == Path::direct ? row.passes : row.sent_share(n))
          << row.name;
      EXPECT_FALSE(large.is_tree);
      EXPECT_EQ(small.is_tree, row.path == Path::ring_or_tree) << row.name;
      if (small.is_tree) {
        EXPECT_DOUBLE_EQ(small.latency_s, row.passes * route.tree_latency_s);
        EXPECT_DOUBLE_EQ(small.flow_bytes, row.passes);
      }
    }
  }
  const Way message = choose_way(route, message_of_two, 2, 1e6, nullptr);
  EXPECT_DOUBLE_EQ(message.latency_s, route.latency_s);
  EXPECT_DOUBLE_EQ(message.flow_bytes, 1);
}

}  // namespace
}  // namespace fourfold::simulate
