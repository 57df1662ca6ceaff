// What the clock says of jobs whose time has a closed form.
#include "simulate/simulate.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "unit/simulate/small_job.h"

namespace fourfold::simulate {
namespace {

using program::Builder;
using program::Job;

void expect_near(double got, double wanted) {
  EXPECT_LE(std::abs(got - wanted), 1e-12 * std::abs(wanted)) << got << " and not " << wanted;
}

constexpr std::int64_t mib = 1 << 20;

/// Collectives of eight ranks along x, one after another: a tensor of 64 MiB and its eighths.
Job collectives_of_eight() {
  return job_on({{"x", 8}}, [](Builder& b) {
    add_tensor(b, "whole", 64 * mib);
    add_tensor(b, "share", 8 * mib);
    b.all_reduce("x", "whole");
    b.all_gather("x", "share", "whole");
    b.reduce_scatter("x", "whole", "share");
    add_tensor(b, "other", 64 * mib);
    b.all_to_all("x", "whole", "other");
  });
}

TEST(Simulate, a_collective_alone_on_two_levels_takes_what_the_ring_formula_says) {
  const Job job = collectives_of_eight();
  const Simulation simulation = simulate(job, op::ProgramKind::train, two_levels(2, 4));
  ASSERT_EQ(simulation.ranks.size(), 1);
  const double bytes = 64 * mib;
  // Seven hops, of which two cross hosts, at the rate of the hosts' ports.
  const double pass_s = (5 * 2 + 2 * 5) * us + 7.0 / 8 * bytes / (20 * gb);
  const auto time_s = [&](std::string_view name) {
    const Times times = times_of(job, simulation, 0, name);
    return times.end_s - times.begin_s;
  };
  expect_near(time_s("all_reduce"), 2 * pass_s);
  expect_near(time_s("all_gather"), pass_s);
  expect_near(time_s("reduce_scatter"), pass_s);
  // Each of a host's four members sends half of its bytes through the host's port, and passes
  // three latencies within and four across.
  expect_near(time_s("all_to_all"), (3 * 2 + 4 * 5) * us + 4 * bytes / 2 / (20 * gb));
  expect_near(simulation.step_s, 4 * pass_s + time_s("all_to_all"));
}

TEST(Simulate, collectives_have_a_share_of_the_links_and_wider_elements_where_the_cluster_says_so) {
  const Job job = collectives_of_eight();
  machine::Cluster cluster = two_levels(2, 4);
  for (machine::Level& level : cluster.levels) level.latency_s = 0;
  const auto step_s = [&] { return simulate(job, op::ProgramKind::train, cluster).step_s; };
  const double whole_s = step_s();
  for (machine::Level& level : cluster.levels) level.share = 0.5;
  expect_near(step_s(), 2 * whole_s);
  cluster.least_element_bytes = 4;
  expect_near(step_s(), 2 * whole_s);
  cluster.least_element_bytes = 8;
  expect_near(step_s(), 4 * whole_s);
}

TEST(Simulate, a_collective_within_a_host_takes_what_its_links_allow) {
  const Job job = job_on({{"x", 4}}, [](Builder& b) {
    add_tensor(b, "whole", 64 * mib);
    b.all_reduce("x", "whole");
  });
  // Rings in several orders have all three links of a device, as much as its port.
  expect_near(simulate(job, op::ProgramKind::train, two_levels(1, 4)).step_s,
              2 * (3 * 2 * us + 3.0 / 4 * 64 * mib / (300 * gb)));
}

TEST(Simulate, a_small_all_reduce_goes_by_a_tree_whose_latency_is_a_logarithm) {
  const Job job = job_on({{"x", 64}}, [](Builder& b) {
    add_tensor(b, "few", 1024);
    b.all_reduce("x", "few");
    add_tensor(b, "many", 1024 * mib);
    b.all_reduce("x", "many");
  });
  const Simulation simulation = simulate(job, op::ProgramKind::train, two_levels(16, 4));
  // Two levels of four devices, four of sixteen hosts.
  const Times few = times_of(job, simulation, 0, "all_reduce", 0);
  expect_near(few.end_s, 2 * (2 * 2 + 4 * 5) * us + 2 * 1024 / (20 * gb));
  // 64 hops, of which 16 cross hosts; the cheapest is not passed.
  const Times many = times_of(job, simulation, 0, "all_reduce", 1);
  expect_near(many.end_s - many.begin_s,
              2 * ((47 * 2 + 16 * 5) * us + 63.0 / 64 * 1024 * mib / (20 * gb)));
}

TEST(Simulate, two_groups_that_share_a_port_take_twice_as_long) {
  const auto time_s = [](std::int64_t groups) {
    const Job job = job_on({{"z", 2}, {"y", groups}}, [](Builder& b) {
      add_tensor(b, "half", mib);
      add_tensor(b, "whole", 2 * mib);
      b.all_gather("z", "half", "whole");
    });
    return simulate(job, op::ProgramKind::train, two_levels(2, groups)).step_s - 5 * us;
  };
  expect_near(time_s(1), mib / (20 * gb));
  expect_near(time_s(2), 2 * time_s(1));
  expect_near(time_s(8), 8 * time_s(1));
}

/// Two streams exchange over the network at the same time, one of them more than the other.
Job two_streams() {
  return job_on({{"z", 2}, {"y", 2}}, [](Builder& b) {
    b.group({"z", "y"});
    add_tensor(b, "half", mib);
    add_tensor(b, "whole", 2 * mib);
    b.all_gather("z", "half", "whole");
    add_tensor(b, "quarter", 4 * mib);
    add_tensor(b, "all", 16 * mib);
    b.add("y", program::AllGather{program::GroupId(2), {b.slice("quarter")}, {b.slice("all")}});
  });
}

TEST(Simulate, exchanges_under_way_at_the_same_time_share_ports_equally) {
  machine::Cluster cluster = two_levels(2, 2);
  for (machine::Level& level : cluster.levels) level.latency_s = 0;
  const Job job = two_streams();
  const Simulation simulation = simulate(job, op::ProgramKind::train, cluster);
  // Through a host's port: two groups of z with a flow of 1 MiB each, and one flow of 12 MiB.
  const double first_s = 3 * mib / (20 * gb);
  expect_near(times_of(job, simulation, 0, "all_gather", 0).end_s, first_s);
  expect_near(simulation.step_s, first_s + 11 * mib / (20 * gb));
}

/// A product and an all-reduce on streams of their own, between waits that `order` chooses.
enum class Order { together, product_waits, reduction_waits };
Job product_and_reduction(std::int64_t n, Order order) {
  return job_on({{"x", 4}}, [&](Builder& b) {
    add_tensor(b, "sum", 64 * mib);
    if (order == Order::reduction_waits) {
      add_product(b, "p", n);
      b.order("math", "x");
    }
    b.all_reduce("x", "sum");
    if (order == Order::product_waits) b.order("x", "math");
    if (order != Order::reduction_waits) add_product(b, "p", n);
    b.order("x", "math");
  });
}

TEST(Simulate, computation_hides_communication_exactly_where_streams_allow_it) {
  const double reduction_s = 2 * (3 * 2 * us + 3.0 / 4 * 64 * mib / (300 * gb));
  for (const std::int64_t n : {300, 1000}) {
    const auto step_s = [&](Order order) {
      return simulate(product_and_reduction(n, order), op::ProgramKind::train, two_levels(1, 4))
          .step_s;
    };
    expect_near(step_s(Order::together), std::max(product_s(n), reduction_s));
    expect_near(step_s(Order::product_waits), product_s(n) + reduction_s);
    expect_near(step_s(Order::reduction_waits), product_s(n) + reduction_s);
  }
}

TEST(Simulate, computation_is_slower_while_its_device_communicates_and_no_longer) {
  machine::Cluster cluster = two_levels(1, 4);
  cluster.device.slowdown_beside_communication = 1.25;
  const double reduction_s = 2 * (3 * 2 * us + 3.0 / 4 * 64 * mib / (300 * gb));
  const Simulation simulation =
      simulate(product_and_reduction(1000, Order::together), op::ProgramKind::train, cluster);
  // What is left when the reduction is done goes on at full speed.
  expect_near(simulation.step_s, reduction_s + product_s(1000) - reduction_s / 1.25);
  const Simulation apart =
      simulate(product_and_reduction(1000, Order::product_waits), op::ProgramKind::train, cluster);
  expect_near(apart.step_s, reduction_s + product_s(1000));
}

TEST(Simulate, ranks_of_one_device_share_what_it_computes) {
  machine::Cluster cluster = two_levels(1, 2);
  cluster.ranks_per_device = 2;
  const Job job = job_on({{"x", 4}}, [](Builder& b) { add_product(b, "p", 500); });
  expect_near(simulate(job, op::ProgramKind::train, cluster).step_s, 2 * product_s(500));
  expect_near(simulate(job, op::ProgramKind::train, cluster, Follow::all_ranks).step_s,
              2 * product_s(500));
}

/// So many products in turn on each stream that computes.
Job products_on(const std::vector<std::string>& streams, std::int64_t n, int count) {
  program::Builder builder(op::ProgramKind::train, Rank(0), {"main", {{"x", 1}}, Ranks(Rank(0), 1)},
                           streams);
  for (const char* operand : {"a", "b"})
    builder.buffer(operand, {n, n}, {program::BufferRole::activation, DType::f32});
  for (const std::string& stream : streams) {
    builder.buffer(stream + ".c", {n, n}, {program::BufferRole::activation, DType::f32});
    for (int i = 0; i < count; ++i)
      builder.op(stream, op::Contract{1, 1}, {"a", "b", stream + ".c"});
  }
  Job job;
  job.classes.push_back({{builder.finish()}, 0, 0});
  job.ranks.resize(1);
  return job;
}

TEST(Simulate, two_streams_that_compute_share_a_device_but_for_the_launches_of_their_kernels) {
  machine::Cluster cluster = two_levels(1, 1);
  cluster.device.instruction_s = 3 * us;
  constexpr std::int64_t n = 300;
  constexpr int count = 5;
  const auto time_s = [&](const std::vector<std::string>& streams) {
    return simulate(products_on(streams, n, count), op::ProgramKind::train, cluster).step_s;
  };
  expect_near(time_s({"math"}), count * (product_s(n) + 3 * us));
  expect_near(time_s({"math", "gradients"}), count * (2 * product_s(n) + 3 * us));
}

TEST(Simulate, a_stream_that_an_event_held_goes_on_after_the_handoff) {
  machine::Cluster cluster = two_levels(1, 1);
  const Job job = job_on({{"x", 1}}, [](Builder& b) {
    add_product(b, "first", 1000);
    b.order("math", "feed");  // the feed waits
    add_tensor(b, "from", 8 * mib);
    add_tensor(b, "to", 8 * mib);
    b.add("feed", program::Copy{b.slice("from"), b.slice("to")});
    b.order("feed", "math");
    b.order("feed", "math");  // the second event has been recorded when math comes to it
  });
  const double work_s = simulate(job, op::ProgramKind::train, cluster).step_s;
  cluster.device.handoff_s = 7 * us;
  expect_near(simulate(job, op::ProgramKind::train, cluster).step_s, work_s + 2 * 7 * us);
}

TEST(Simulate, a_time_that_is_not_finite_is_an_error) {
  const Job job = job_on({{"x", 1}}, [](Builder& b) {
    add_tensor(b, "from", 8 * mib);
    add_tensor(b, "to", 8 * mib);
    b.add("math", program::Copy{b.slice("from"), b.slice("to")});
  });
  machine::Cluster cluster = two_levels(1, 1);
  EXPECT_GT(simulate(job, op::ProgramKind::train, cluster).step_s, 0);
  cluster.device.memory_bytes_per_s = 1e-306;
  try {
    simulate(job, op::ProgramKind::train, cluster);
    ADD_FAILURE() << "a time was told";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::numeric_stop);
    EXPECT_NE(std::string(error.what()).find("a step takes inf s on machine small, expected a"),
              std::string::npos)
        << error.what();
  }
}

TEST(Simulate, handoffs_of_ranks_on_one_device_are_work_that_they_share) {
  machine::Cluster cluster = two_levels(1, 1);
  cluster.ranks_per_device = 2;
  const Job job = job_on({{"x", 2}}, [](Builder& b) {
    add_product(b, "first", 1000);
    b.order("math", "feed");
    add_tensor(b, "from", 8 * mib);
    add_tensor(b, "to", 8 * mib);
    b.add("feed", program::Copy{b.slice("from"), b.slice("to")});
  });
  const double work_s = simulate(job, op::ProgramKind::train, cluster).step_s;
  cluster.device.handoff_s = 7 * us;
  expect_near(simulate(job, op::ProgramKind::train, cluster).step_s, work_s + 2 * 7 * us);
}

TEST(Simulate, a_program_of_one_stream_takes_the_sum_of_its_instructions) {
  machine::Cluster cluster = two_levels(1, 1);
  cluster.device.instruction_s = 3 * us;
  cluster.device.memory_share = 0.5;
  cluster.device.rates[0].efficiency = {{1e6, 0.1}, {1e12, 0.9}};
  const Job job = job_on({{"x", 1}}, [](Builder& b) {
    add_product(b, "small", 100);
    add_product(b, "large", 1000);
    add_tensor(b, "from", 8 * mib);
    add_tensor(b, "to", 8 * mib);
    b.op("math", op::Add{}, {"from", "to", "from"});
    b.add("math", program::Copy{b.slice("from"), b.slice("to")});
  });
  const double memory_bytes_per_s = 0.5e12;
  // Shares lie on a line over log(flops): 0.1 at 1e6, 0.9 at 1e12.
  const auto reached = [](double flops) {
    return (0.1 + 0.8 * std::log(flops / 1e6) / std::log(1e6)) * 1e12;
  };
  const double parts_s = 2e6 / reached(2e6) + 2e9 / reached(2e9) +
                         3.0 * 8 * mib / memory_bytes_per_s + 2.0 * 8 * mib / memory_bytes_per_s;
  expect_near(simulate(job, op::ProgramKind::train, cluster).step_s, parts_s + 4 * 3 * us);
}

/// Rank r hands a tensor on to rank r + 1.
Job chain(std::size_t length, std::int64_t bytes) {
  const Mesh mesh{"main", {{"x", static_cast<std::int64_t>(length)}}, Ranks(Rank(0), length)};
  std::vector<program::Bundle> bundles;
  for (std::size_t rank = 0; rank < length; ++rank) {
    Builder b(op::ProgramKind::train, Rank(rank), mesh, {"math", "messages"});
    add_tensor(b, "tensor", bytes);
    if (rank > 0) b.add("messages", program::Recv{Rank(rank - 1), 1, b.slice("tensor")});
    if (rank + 1 < length) b.add("messages", program::Send{Rank(rank + 1), 1, b.slice("tensor")});
    bundles.push_back({{b.finish()}, 0, 0});
  }
  return program::job_of(std::move(bundles));
}

TEST(Simulate, a_chain_of_messages_takes_the_sum_of_its_hops) {
  machine::Cluster cluster = two_levels(3, 2);
  cluster.device.instruction_s = 1 * us;
  const Simulation simulation = simulate(chain(6, 8 * mib), op::ProgramKind::train, cluster);
  ASSERT_EQ(simulation.ranks.size(), 6);
  const double within_s = 3 * us + 8 * mib / (100 * gb), across_s = 6 * us + 8 * mib / (20 * gb);
  expect_near(simulation.step_s, 3 * within_s + 2 * across_s);
}

TEST(Simulate, messages_of_a_host_share_its_port) {
  // Ranks 0 to 3 of one host send to ranks 4 to 7 of the other.
  const Mesh mesh{"main", {{"x", 8}}, Ranks(Rank(0), 8)};
  std::vector<program::Bundle> bundles;
  for (std::size_t rank = 0; rank < 8; ++rank) {
    Builder b(op::ProgramKind::train, Rank(rank), mesh, {"math", "messages"});
    add_tensor(b, "tensor", 8 * mib);
    if (rank < 4)
      b.add("messages", program::Send{Rank(rank + 4), 1, b.slice("tensor")});
    else
      b.add("messages", program::Recv{Rank(rank - 4), 1, b.slice("tensor")});
    bundles.push_back({{b.finish()}, 0, 0});
  }
  const double wanted_s = 5 * us + 4 * 8 * mib / (20 * gb);
  expect_near(simulate(program::job_of(bundles), op::ProgramKind::train, two_levels(2, 4)).step_s,
              wanted_s);
  // The same ranks as two classes.
  Job job{{bundles[0], bundles[4]}, {}};
  for (std::size_t rank = 0; rank < 8; ++rank)
    job.ranks.push_back({rank < 4 ? 0U : 1U, {Rank(rank < 4 ? rank + 4 : rank - 4)}});
  const Simulation by_class = simulate(job, op::ProgramKind::train, two_levels(2, 4));
  ASSERT_EQ(by_class.ranks.size(), 2);
  expect_near(by_class.step_s, wanted_s);
}

TEST(Simulate, a_measured_group_takes_what_was_measured) {
  machine::Cluster cluster = two_levels(2, 4);
  cluster.device.instruction_s = 1 * us;
  cluster.groups = {{Collective::all_reduce, 8, 1, 30 * us, 7 * gb}};
  const Job job = collectives_of_eight();
  const Simulation simulation = simulate(job, op::ProgramKind::train, cluster);
  expect_near(times_of(job, simulation, 0, "all_reduce").end_s, 30 * us + 64 * mib / (7 * gb));
  const Times gather = times_of(job, simulation, 0, "all_gather");
  expect_near(gather.end_s - gather.begin_s,
              (1 + 5 * 2 + 2 * 5) * us + 7.0 / 8 * 64 * mib / (20 * gb));
}

TEST(Simulate, a_measured_group_takes_the_times_of_sizes_where_they_are_known) {
  machine::Cluster cluster = two_levels(2, 4);
  cluster.groups = {
      {Collective::all_reduce, 8, 1, 30 * us, 7 * gb, {{16 * mib, 5e-3}, {64 * mib, 11e-3}}}};
  const Job job = collectives_of_eight();
  const Simulation simulation = simulate(job, op::ProgramKind::train, cluster);
  expect_near(times_of(job, simulation, 0, "all_reduce").end_s, 11e-3);
}

TEST(Simulate, the_slower_of_two_units_of_a_pair_decides) {
  machine::Cluster cluster = two_levels(1, 4);
  // Two pairs with strong links, weak ones between them.
  cluster.levels.pop_back();
  const double s = 50 * gb, w = 10 * gb;
  cluster.levels[0].pairs = {{0, s, w, w}, {s, 0, w, w}, {w, w, 0, s}, {w, w, s, 0}};
  const auto step_s = [&](const Axes& axes, const std::string& axis) {
    const Job job = job_on(axes, [&](Builder& b) {
      add_tensor(b, "sum", 64 * mib);
      b.all_reduce(axis, "sum");
    });
    return simulate(job, op::ProgramKind::train, cluster).step_s;
  };
  expect_near(step_s({{"y", 2}, {"x", 2}}, "x"), 2 * (2 * us + 64 * mib / 2 / s));
  expect_near(step_s({{"y", 2}, {"x", 2}}, "y"), 2 * (2 * us + 64 * mib / 2 / w));
}

TEST(Simulate, one_rank_of_each_class_says_what_all_ranks_say) {
  const auto grids = program::grid_job({2, 2, 2, 2});
  const Job grid{{grids[0]}, std::vector<program::Binding>(grids.size())};
  const auto stages = program::pipeline_job(4);
  Job pipeline{{stages[0], stages[4]}, {}};
  for (std::size_t rank = 0; rank < 8; ++rank)
    pipeline.ranks.push_back({rank < 4 ? 0U : 1U, program::job_of(stages).ranks[rank].peers});
  machine::Cluster shared = two_levels(2, 4);
  shared.ranks_per_device = 2;
  machine::Cluster slow = two_levels(4, 4);
  slow.device.slowdown_beside_communication = 1.5;
  slow.device.instruction_s = 2 * us;
  for (const Job* job : std::array{&std::as_const(grid), &std::as_const(pipeline)})
    for (const machine::Cluster& cluster : {two_levels(4, 4), two_levels(2, 8), shared, slow}) {
      const Simulation few = simulate(*job, op::ProgramKind::train, cluster);
      const Simulation all = simulate(*job, op::ProgramKind::train, cluster, Follow::all_ranks);
      ASSERT_EQ(few.ranks.size(), job->classes.size());
      ASSERT_EQ(all.ranks.size(), job->ranks.size());
      EXPECT_FALSE(few.is_bound);
      EXPECT_NEAR(few.step_s, all.step_s, 1e-9 * all.step_s);
      for (const SimulatedRank& one : all.ranks) {
        const SimulatedRank& of = few.ranks[one.of_class];
        for (std::size_t i = 0; i < one.times.size(); ++i)
          ASSERT_NEAR(one.times[i].end_s, of.times[i].end_s, 1e-9 * all.step_s);
      }
    }
}

TEST(Simulate, groups_that_lie_differently_on_the_machine_are_followed_rank_by_rank) {
  // Pairs of x on hosts of three: ranks 2 and 3 are on two hosts.
  const Job job = job_on({{"y", 3}, {"x", 2}}, [](Builder& b) {
    add_tensor(b, "sum", 64 * mib);
    b.all_reduce("x", "sum");
  });
  machine::Cluster cluster = two_levels(2, 3);
  for (machine::Level& level : cluster.levels) level.latency_s = 1 * us;
  const Simulation all = simulate(job, op::ProgramKind::train, cluster);
  ASSERT_EQ(all.ranks.size(), 6);
  EXPECT_FALSE(all.is_bound);
  const double near_s = 2 * (1 * us + 64 * mib / 2 / (100 * gb));
  const double far_s = 2 * (1 * us + 64 * mib / 2 / (20 * gb));
  for (const std::size_t rank : {0, 1, 4, 5})
    expect_near(times_of(job, all, rank, "all_reduce").end_s, near_s);
  for (const std::size_t rank : {2, 3})
    expect_near(times_of(job, all, rank, "all_reduce").end_s, far_s);
  const Simulation bound =
      simulate(job, op::ProgramKind::train, cluster, Follow::one_of_each_class);
  ASSERT_EQ(bound.ranks.size(), 1);
  EXPECT_TRUE(bound.is_bound);
  expect_near(bound.step_s, far_s);
}

template <class Body>
std::string error_of(ExitCode code, const Body& body) {
  try {
    body();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  return "none";
}

TEST(Simulate, what_a_machine_cannot_do_is_one_line) {
  const Job job = collectives_of_eight();
  EXPECT_EQ(error_of(ExitCode::does_not_fit,
                     [&] { simulate(job, op::ProgramKind::train, two_levels(1, 4)); }),
            "machine small has room for 4 ranks, the job has 8; give the job fewer ranks, or the "
            "machine's file more units");
  EXPECT_EQ(error_of(ExitCode::bad_config,
                     [&] { simulate(job, op::ProgramKind::decode, two_levels(2, 4)); }),
            "the job has no program 'decode'");
  machine::Cluster cluster = two_levels(1, 4);
  cluster.device.rates[0].dtype = DType::bf16;
  const Job product = job_on({{"x", 1}}, [](Builder& b) { add_product(b, "p", 10); });
  EXPECT_EQ(
      error_of(ExitCode::bad_config, [&] { simulate(product, op::ProgramKind::train, cluster); }),
      "machine small has no rate for products of f32, only for bf16; set precision.compute, or "
      "add device.rates.f32 to a file of the machine");
}

TEST(Simulate, a_job_that_never_ends_is_told_and_not_waited_for) {
  Job job = chain(2, mib);
  program::Program& sender = job.classes[0].programs[0];
  erase_instruction(sender, find_instruction(sender, "send"));
  job.ranks[0].peers.clear();
  EXPECT_EQ(
      error_of(ExitCode::bad_config,
               [&] { simulate(job, op::ProgramKind::train, two_levels(1, 2)); }),
      "the job never comes to its end: rank 1 stands in instruction 0 (recv -> tensor peer 0 tag "
      "1); `fourfold verify` says who waits for whom");
}

}  // namespace
}  // namespace fourfold::simulate
