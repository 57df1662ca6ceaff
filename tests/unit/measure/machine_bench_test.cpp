// What is measured of a machine by rank threads, and the cluster made of it.
#include "measure/machine_bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "comm/threads.h"
#include "machine/cluster_file.h"
#include "op/table.h"

namespace fourfold::measure {
namespace {

MachineTimes made_up_times() {
  MachineTimes times;
  times.products = {{DType::f32, 64, 1e6, {1e-4, 1e-4, 1e-4}},
                    {DType::f32, 128, 8e6, {4e-4, 5e-4, 5e-4}},
                    {DType::f64, 64, 1e6, {2.0004e-4, 3e-4, 3e-4}}};
  times.triad_bytes_per_s = 10.004e9;
  times.rows_bytes_per_s = 8e9;
  times.instruction = {1e-6, 1e-6, 1e-6};
  times.handoff = {2e-6, 5e-6, 6e-6};
  times.slowdown = 1.25;
  times.exchanges = {{{Collective::all_reduce, 4, 1}, {}, 0, {1e-5, 2e9, 0}},
                     {{message_of_two, 2, 1}, {}, 0, {2e-6, 5e9, 0}},
                     {{message_of_two, 2, 2}, {}, 0, {9e-6, 1e9, 0}}};
  return times;
}

TEST(MachineBench, a_cluster_has_the_figures_with_three_digits_and_reads_back) {
  MachineBenchOptions options;
  options.device_name = "a core";
  options.memory_bytes = 1 << 30;
  const machine::Cluster cluster = cluster_of(made_up_times(), options, 4, 2);
  EXPECT_EQ(cluster.device.memory_bytes_per_s, 10e9);
  EXPECT_EQ(cluster.device.memory_share, 0.8);
  EXPECT_EQ(cluster.device.slowdown_beside_communication, 1.25);
  EXPECT_EQ(cluster.device.rates,
            (std::vector<machine::ComputeRate>{{DType::f32, 20e9, {{1e6, 0.5}, {8e6, 1}}},
                                               {DType::f64, 5e9, {{1e6, 1}}}}));
  EXPECT_EQ(cluster.levels, (std::vector<machine::Level>{{"host", 2, 2e-6, 5e9, 5e9, 0, {}},
                                                         {"network", 2, 9e-6, 1e9, 2e9, 0, {}}}));
  EXPECT_EQ(cluster.groups[0], (machine::MeasuredGroup{Collective::all_reduce, 4, 1, 1e-5, 2e9}));
  machine::Cluster read = machine::read_cluster(machine::to_yaml(cluster), "m.yaml", "");
  EXPECT_EQ(read, cluster);
}

TEST(MachineBench, calls_of_an_operation_are_one_kernel_and_equally_large_ones_have_their_mean) {
  MachineTimes times = made_up_times();
  const auto add = [&](std::int64_t elements, int count, double seconds) {
    const Shape shape{elements};
    times.calls.push_back(
        {{{op::sum_of_two(), DType::f32, {shape, shape, shape}, 1}, "vector", count}, seconds});
  };
  add(4000, 1, 5e-6);
  add(1000, 3, 1e-6);
  add(1000, 1, 3e-6);
  const machine::Device device = cluster_of(times, {}, 4, 2).device;
  ASSERT_EQ(device.kernels.size(), 1U);
  EXPECT_EQ(device.kernels[0].op, op::name(op::sum_of_two()));
  ASSERT_EQ(device.kernels[0].times.size(), 2U);
  EXPECT_EQ(device.kernels[0].times[0].bytes, 12'000);
  EXPECT_DOUBLE_EQ(device.kernels[0].times[0].seconds, 1.5e-6);
  EXPECT_EQ(device.kernels[0].times[1].bytes, 48'000);
  EXPECT_DOUBLE_EQ(device.kernels[0].times[1].seconds, 5e-6);
}

TEST(MachineBench, a_handoff_is_what_an_instruction_takes_longer_when_it_waits) {
  EXPECT_DOUBLE_EQ(cluster_of(made_up_times(), {}, 4, 2).device.handoff_s, 4e-6);
}

TEST(MachineBench, rows_that_are_faster_than_the_triad_are_what_memory_gives) {
  MachineTimes times = made_up_times();
  times.rows_bytes_per_s = 20e9;
  const machine::Cluster cluster = cluster_of(times, {}, 4, 2);
  EXPECT_EQ(cluster.device.memory_bytes_per_s, 20e9);
  EXPECT_EQ(cluster.device.memory_share, 1);
}

TEST(MachineBench, ranks_that_share_a_core_are_one_device) {
  MachineBenchOptions options;
  options.ranks_per_device = 2;
  options.memory_bytes = 1 << 30;
  const machine::Cluster cluster = cluster_of(made_up_times(), options, 4, 4);
  EXPECT_EQ(cluster.devices(), 2);
  EXPECT_EQ(cluster.ranks(), 4);
}

TEST(MachineBench, exchanges_cover_all_kinds_and_sizes_of_groups_that_tile_the_ranks) {
  std::set<ExchangeKind> kinds;
  for (const std::int64_t world : {2, 3, 4, 6, 8, 12})
    for (const Exchange& exchange : exchanges_of(world, world)) {
      EXPECT_TRUE(world % (exchange.ranks * exchange.stride) == 0 || !exchange.kind);
      kinds.insert(exchange.kind);
    }
  EXPECT_EQ(kinds, std::set<ExchangeKind>(exchange_kinds().begin(), exchange_kinds().end()));
  const std::vector<Exchange> of_8 = exchanges_of(8, 4);
  for (const Exchange& expected : std::vector<Exchange>{{Collective::all_reduce, 2, 1},
                                                        {Collective::all_reduce, 2, 4},
                                                        {Collective::all_gather, 4, 2},
                                                        {Collective::all_to_all, 8, 1},
                                                        {message_of_two, 2, 1},
                                                        {message_of_two, 2, 4}})
    EXPECT_NE(std::find(of_8.begin(), of_8.end(), expected), of_8.end())
        << to_string(expected.kind);
  EXPECT_TRUE(exchanges_of(1, 1).empty());
}

TEST(MachineBench, an_odd_number_of_ranks_is_measured_and_described) {
  comm::ThreadJob job(3);
  MachineBenchOptions options;
  options.seconds = 0.001;
  options.is_quick = true;
  options.memory_bytes = 1 << 30;
  std::vector<MachineTimes> seen(3);
  job.run([&](comm::World& world) {
    seen[world.rank().index()] = measure_machine(world, options, [](const std::string&) {});
  });
  const machine::Cluster cluster = cluster_of(seen[0], options, 3, 3);
  EXPECT_EQ(cluster.devices(), 3);
  EXPECT_GT(cluster.levels[0].link_bytes_per_s, 0);
  EXPECT_NE(cluster.measured(Collective::all_reduce, 3, 1), nullptr);
  EXPECT_EQ(cluster.measured(message_of_two, 2, 1), nullptr) << "two do not divide three";
  EXPECT_EQ(machine::read_cluster(machine::to_yaml(cluster), "m.yaml", ""), cluster);
}

TEST(MachineBench, all_ranks_get_the_same_times_of_an_exchange_that_grow_with_bytes) {
  // A busy machine may hold up the small messages longer than the large ones take: not five times.
  bool grows = false;
  for (int attempt = 0; attempt < 5 && !grows; ++attempt) {
    comm::ThreadJob job(4);
    std::vector<ExchangeTimes> seen(4);
    job.run([&](comm::World& world) {
      seen[world.rank().index()] = measure_exchange(world, {Collective::all_gather, 2, 2},
                                                    {1 << 10, 1 << 14, 1 << 18, 1 << 21}, 0.005);
    });
    for (const ExchangeTimes& times : seen) {
      ASSERT_EQ(times.samples.size(), 4U);
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_EQ(times.samples[i].bytes, seen[0].samples[i].bytes);
        EXPECT_EQ(times.samples[i].seconds, seen[0].samples[i].seconds);
      }
    }
    EXPECT_GT(seen[0].fit.bytes_per_s, 0);
    grows = seen[0].samples.front().seconds < seen[0].samples.back().seconds;
  }
  EXPECT_TRUE(grows);
}

TEST(MachineBench, one_size_of_an_exchange_is_a_rate_without_a_latency) {
  comm::ThreadJob job(2);
  job.run([](comm::World& world) {
    const ExchangeTimes times = measure_exchange(world, {message_of_two, 2, 1}, {1 << 12}, 0.001);
    ASSERT_EQ(times.samples.size(), 1U);
    EXPECT_EQ(times.samples[0].bytes, 1 << 12);
    EXPECT_EQ(times.fit.latency_s, 0);
    EXPECT_DOUBLE_EQ(times.fit.bytes_per_s, (1 << 12) / times.samples[0].seconds);
  });
}

TEST(MachineBench, a_ring_sends_of_each_exchange_what_its_kind_says) {
  EXPECT_EQ(ring_share({Collective::all_reduce, 4, 1}), 1.5);
  EXPECT_EQ(ring_share({Collective::all_gather, 4, 2}), 0.75);
  EXPECT_EQ(ring_share({Collective::reduce_scatter, 2, 1}), 0.5);
  EXPECT_EQ(ring_share({Collective::all_to_all, 8, 1}), 0.875);
  EXPECT_EQ(ring_share({message_of_two, 2, 3}), 1);
}

/// Notes what it is asked to do: what time_together calls on each rank.
class CountingCarrier : public Carrier {
 public:
  void prepare(const Exchange&, const std::vector<Rank>& members, std::int64_t most) override {
    last_member = members.back();
    most_bytes = most;
  }
  void call(std::size_t bytes) override {
    ++open_calls;
    largest = std::max(largest, bytes);
  }
  void settle() override {
    ++settled;
    open_calls = 0;
  }
  Rank last_member;
  std::int64_t most_bytes = 0, open_calls = 0, settled = 0;
  std::size_t largest = 0;
};

TEST(MachineBench, what_is_enqueued_is_settled_in_each_round_and_ranks_without_a_peer_never_call) {
  comm::ThreadJob job(3);
  job.run([](comm::World& world) {
    CountingCarrier carrier;
    measure_exchange(world, carrier, {message_of_two, 2, 1}, {1 << 10, 1 << 12}, 0.001);
    EXPECT_EQ(carrier.open_calls, 0) << "nothing is left when the clock is read";
    EXPECT_GE(carrier.settled, 2 * 5) << "a first call, a first and a warm round, and three";
    const bool is_alone = world.rank() == Rank(2);
    EXPECT_EQ(carrier.largest, is_alone ? 0 : 1 << 12);
    EXPECT_EQ(carrier.last_member, Rank(is_alone ? 3 : 1));
    EXPECT_GE(carrier.most_bytes, 1 << 12);
  });
}

TEST(MachineBench, a_machine_is_measured_by_threads_from_products_to_exchanges) {
  comm::ThreadJob job(2);
  MachineBenchOptions options;
  options.seconds = 0.001;
  options.is_quick = true;
  options.memory_bytes = 1 << 30;
  MachineTimes times;
  std::vector<std::string> lines;
  job.run([&](comm::World& world) {
    const bool is_first = world.rank().index() == 0;
    const MachineTimes own = measure_machine(world, options, [&](const std::string& line) {
      if (is_first) lines.push_back(line);
    });
    if (is_first) times = own;
  });
  EXPECT_EQ(times.products.size(), 4U);
  EXPECT_EQ(times.exchanges.size(), 5U);
  EXPECT_GT(times.triad_bytes_per_s, 1e8);
  EXPECT_GT(times.instruction.median_s, 1e-8);
  EXPECT_LT(times.instruction.median_s, 1e-3);
  EXPECT_GE(times.slowdown, 1);
  EXPECT_GE(lines.size(), 13U);
  const machine::Cluster cluster = cluster_of(times, options, 2, 2);
  EXPECT_EQ(machine::read_cluster(machine::to_yaml(cluster), "m.yaml", ""), cluster);
}

}  // namespace
}  // namespace fourfold::measure
