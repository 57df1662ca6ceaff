// The time of work and traffic on clusters whose numbers are easy.
#include "search/price.h"

#include <gtest/gtest.h>

namespace fourfold::search {
namespace {

using compile::MoveKind;
using compile::Purpose;
using machine::AxisGroup;

/// Hosts of 4 devices: 8 bytes a second within, 2 from host to host, and latencies of 1/2 and 1.
machine::Cluster hosts(std::int64_t count) {
  machine::Cluster cluster;
  cluster.device.memory_bytes_per_s = 10;
  cluster.device.memory_share = 0.5;
  cluster.device.instruction_s = 0.25;
  cluster.device.rates = {{DType::f32, 100, {{1, 0.5}, {4, 1}}}};
  cluster.levels = {{"host", 4, 0.5, 8, 8, 8, {}}, {"network", count, 1, 2, 2, 2, {}}};
  return cluster;
}

Pricer pricer_of(const machine::Cluster& cluster, std::int64_t bucket_bytes = 0) {
  return {cluster, cluster.device.rates[0], bucket_bytes};
}

const Mesh mesh{"main", {{"data", 3}, {"z", 2}, {"y", 4}, {"x", 5}}, Ranks(Rank(0), 120)};

TEST(Price, groups_lie_as_the_order_of_ranks_has_them) {
  const auto groups = groups_in_order(mesh, {"y", "x", "data", "z"});
  EXPECT_EQ(groups[2].stride, 1);
  EXPECT_EQ(groups[3].stride, 4);
  EXPECT_EQ(groups[0].stride, 20);
  EXPECT_EQ(groups[1].stride, 60);
  EXPECT_EQ(groups[3].ranks, 5);
}

TEST(Price, a_collective_takes_the_latency_of_its_starts_and_its_bytes_at_the_rate_of_its_group) {
  const machine::Cluster cluster = hosts(2);
  Pricer pricer = pricer_of(cluster);
  const Sent sent{.calls = 2, .payload_bytes = 16, .sent_bytes = 24};
  EXPECT_DOUBLE_EQ(pricer.seconds(Collective::all_reduce, {{4, 1}}, sent), 2 * 4 * 0.5 + 24. / 8);
  EXPECT_DOUBLE_EQ(pricer.seconds(Collective::all_gather, {{4, 1}}, sent), 2 * 3 * 0.5 + 24. / 8);
  EXPECT_DOUBLE_EQ(pricer.seconds(Collective::all_gather, {{2, 4}}, sent),
                   2 * 1 * 1. + 24 / (2. / 4))
      << "four groups share a host's port";
  EXPECT_EQ(pricer.seconds(Collective::all_gather, {{1, 4}}, sent), 0);
}

TEST(Price, narrow_elements_take_the_bytes_that_the_cluster_sends_of_one) {
  machine::Cluster cluster = hosts(2);
  cluster.least_element_bytes = 4;
  cluster.groups = {{Collective::all_gather, 4, 1, 3, 4}};
  Pricer pricer = pricer_of(cluster);
  const auto seconds = [&](Collective kind, double element_bytes) {
    return pricer.seconds(kind, {{4, 1}}, {1, 16, 24, element_bytes});
  };
  EXPECT_DOUBLE_EQ(seconds(Collective::all_reduce, 2), 4 * 0.5 + 2 * 24. / 8);
  EXPECT_DOUBLE_EQ(seconds(Collective::all_reduce, 4), 4 * 0.5 + 24. / 8);
  EXPECT_DOUBLE_EQ(seconds(Collective::all_gather, 2), 3 + 2 * 16. / 4) << "as measured";
}

TEST(Price, axes_that_are_neighbours_are_one_group_and_others_have_the_least_rate_of_theirs) {
  const machine::Cluster cluster = hosts(2);
  Pricer pricer = pricer_of(cluster);
  const Sent sent{.calls = 0, .payload_bytes = 16, .sent_bytes = 24};
  EXPECT_DOUBLE_EQ(pricer.seconds(Collective::all_reduce, {{2, 2}, {2, 1}}, sent), 24. / 8);
  EXPECT_DOUBLE_EQ(pricer.seconds(Collective::all_reduce, {{2, 4}, {4, 1}}, sent), 24. / 2)
      << "one ring through both hosts";
  EXPECT_DOUBLE_EQ(pricer.seconds(Collective::all_reduce, {{2, 4}, {2, 1}}, sent), 24 / (2. / 4));
}

TEST(Price, what_was_measured_of_a_group_replaces_links_and_latency) {
  machine::Cluster cluster = hosts(2);
  cluster.groups = {{Collective::all_gather, 4, 1, 3, 4}};
  Pricer pricer = pricer_of(cluster);
  const Sent sent{.calls = 2, .payload_bytes = 16, .sent_bytes = 12};
  EXPECT_DOUBLE_EQ(pricer.seconds(Collective::all_gather, {{4, 1}}, sent), 2 * 3 + 16. / 4);
  EXPECT_DOUBLE_EQ(pricer.seconds(Collective::reduce_scatter, {{4, 1}}, sent),
                   2 * 3 * .5 + 12. / 8);
  cluster.groups[0].times = {{2, 3}, {8, 5}};
  EXPECT_DOUBLE_EQ(pricer_of(cluster).seconds(Collective::all_gather, {{4, 1}}, sent), 2 * 5)
      << "two calls of 8 bytes";
}

TEST(Price, products_take_what_the_device_reaches_for_their_size_and_all_else_its_bytes) {
  machine::Cluster cluster = hosts(1);
  Demand demand;
  demand.products = {{1, 10}, {8, 2}};
  demand.other_bytes = 20;
  demand.instructions = 12;
  const Price price = pricer_of(cluster).price(demand, {});
  EXPECT_DOUBLE_EQ(price.products, 10 / 50. + 16 / 100.);
  EXPECT_DOUBLE_EQ(price.others, 20 / 5. + 12 * 0.25);
  cluster.ranks_per_device = 3;
  const Price shared = pricer_of(cluster).price(demand, {});
  EXPECT_DOUBLE_EQ(shared.products, 3 * price.products) << "three ranks share the device";
  EXPECT_DOUBLE_EQ(shared.others, 3 * 20 / 5. + 12 * 0.25);
}

TEST(Price, traffic_is_told_apart_by_purpose_and_gradients_share_messages_at_the_end) {
  const machine::Cluster cluster = hosts(1);
  Demand demand;
  const std::vector<AxisId> x = {AxisId(3)};
  demand.sent[{Purpose::weights, Collective::all_gather, x, "a", false}] = {1, 8, 8};
  demand.sent[{Purpose::activations, Collective::all_reduce, x, "a", false}] = {1, 16, 16};
  demand.sent[{Purpose::activations, Collective::all_reduce, x, "b", false}] = {1, 16, 16};
  demand.sent[{Purpose::gradients, Collective::all_reduce, x, "a", true}] = {100, 80, 80};
  const std::vector<AxisGroup> groups = {{1, 4}, {1, 4}, {1, 4}, {4, 1}};
  const Price alone = pricer_of(cluster).price(demand, groups);
  EXPECT_DOUBLE_EQ(alone.weights, 3 * 0.5 + 1);
  EXPECT_DOUBLE_EQ(alone.activations, 2 * (4 * 0.5 + 2));
  EXPECT_DOUBLE_EQ(alone.gradients, 100 * 4 * 0.5 + 10);
  EXPECT_DOUBLE_EQ(alone.all(), alone.weights + alone.activations + alone.gradients);
  ASSERT_EQ(alone.traffic.size(), 3U) << "labels are added up";
  EXPECT_EQ(alone.traffic[0].purpose, Purpose::gradients);
  EXPECT_DOUBLE_EQ(pricer_of(cluster, 40).price(demand, groups).gradients, 2 * 4 * 0.5 + 10);
}

TEST(Price, what_may_run_beside_computation_is_hidden_as_far_as_there_is_computation) {
  machine::Cluster cluster = hosts(1);
  cluster.levels[0].latency_s = 0;
  cluster.device.slowdown_beside_communication = 1.5;
  const std::vector<AxisId> x = {AxisId(3)};
  const std::vector<AxisGroup> groups = {{1, 4}, {1, 4}, {1, 4}, {4, 1}};
  Demand demand;
  demand.micros = 2;
  demand.products = {{4, 300}};  // 12 s
  demand.sent[{Purpose::weights, Collective::all_gather, x, "", false, true}] = {1, 24, 24};  // 3 s
  demand.sent[{Purpose::activations, Collective::all_reduce, x, "", false, false}] = {1, 8, 8};
  const Price some = pricer_of(cluster).price(demand, groups);
  EXPECT_DOUBLE_EQ(some.hidden(), 3);
  EXPECT_DOUBLE_EQ(some.slower_by, 1.5);
  EXPECT_DOUBLE_EQ(some.step(), 12 + 1.5 + 1) << "activations have to come";
  EXPECT_DOUBLE_EQ(some.all(), 12 + 3 + 1) << "nothing hidden";
  // At the end of the step the last backward pass alone is there: 2/3 of half of 12 s.
  demand.sent[{Purpose::gradients, Collective::all_reduce, x, "", true, true}] = {1, 80, 80};
  EXPECT_DOUBLE_EQ(pricer_of(cluster).price(demand, groups).hidden_gradients, 4);
  demand.sent[{Purpose::weights, Collective::all_gather, x, "", false, true}] = {1, 240, 240};
  const Price all = pricer_of(cluster).price(demand, groups);
  EXPECT_DOUBLE_EQ(all.hidden_weights, 12) << "no more than there is computation";
  EXPECT_DOUBLE_EQ(all.hidden_gradients, 0);
}

}  // namespace
}  // namespace fourfold::search
