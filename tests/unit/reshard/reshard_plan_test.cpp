#include "reshard/reshard_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/format.h"
#include "comm/threads.h"
#include "reshard/paper_cases.h"

namespace fourfold::reshard {
namespace {

/// Ports of one byte a second; nothing else takes time.
const Links port_model{{0, 1}, {}};

ReshardPlan plan_of(const MeshPair& pair, Strategy strategy, Ordering ordering = Ordering::best,
                    std::optional<std::int64_t> chunks = std::nullopt) {
  ReshardOptions options;
  options.strategy = strategy;
  options.ordering = ordering;
  options.chunks = chunks;
  options.links = port_model;
  return make_plan(pair.from, pair.to, pair.host_of, options);
}

MeshPair pair_of(int number) {
  const PaperCase& one = paper_cases()[static_cast<std::size_t>(number - 1)];
  return place_pair(shape_of(one, full_bytes), one.from, one.from_mesh, one.to, one.to_mesh);
}

/// In units of t_D, the time in which a port passes the whole tensor.
double time_of(const MeshPair& pair, Strategy strategy, Ordering ordering = Ordering::best,
               std::optional<std::int64_t> chunks = std::nullopt) {
  const ReshardPlan plan = plan_of(pair, strategy, ordering, chunks);
  return plan.makespan_s / static_cast<double>(4 * plan.shape.elements());
}

/// The chain of 1000 chunks over two hosts or three, instead of infinitely many.
constexpr double of_chunks = 0.0021;

// Zhuang et al. 2023, Table 2 and Figure 8, by the host-NIC model: full-size tensors.
TEST(ReshardPlan, of_the_nine_cases_takes_what_the_model_says) {
  const std::vector<double> naive{.5, 1, .75, .9375, 1, 1, 1, 1, .75};
  const std::vector<double> balance_only{.5, .5, .75, .9375, .75, 2. / 3, 1, 1, .75};
  const std::vector<double> bounds{.5, .5, .5, .5, .5, .5, 1, 1, .5};
  for (int number = 1; number <= 9; ++number) {
    const auto at = static_cast<std::size_t>(number - 1);
    const MeshPair pair = pair_of(number);
    EXPECT_NEAR(time_of(pair, Strategy::broadcast, Ordering::naive), naive[at], of_chunks)
        << "case " << number;
    EXPECT_NEAR(time_of(pair, Strategy::broadcast, Ordering::balance_only), balance_only[at],
                of_chunks)
        << "case " << number;
    EXPECT_NEAR(time_of(pair, Strategy::broadcast), bounds[at], of_chunks) << "case " << number;
    const ReshardPlan plan = plan_of(pair, Strategy::broadcast);
    const auto tensor_bytes = static_cast<double>(4 * plan.shape.elements());
    EXPECT_NEAR(plan.lower_bound_s / tensor_bytes, bounds[at], 1e-9) << "case " << number;
    EXPECT_GE(plan.makespan_s, plan.lower_bound_s * (1 - 1e-12));
  }
}

// R7: the paper's depth-first search fails beyond 20 unit tasks; here those of a kind are one.
TEST(ReshardPlan, of_the_64_tasks_of_case_4_is_found_by_each_search) {
  EXPECT_NEAR(time_of(pair_of(4), Strategy::broadcast, Ordering::greedy), .5, of_chunks);
  EXPECT_NEAR(time_of(pair_of(4), Strategy::broadcast, Ordering::depth_first), .5, of_chunks);
}

/// One sender, and receivers on `hosts` hosts with `each` ranks.
MeshPair one_to_many(std::int64_t hosts, std::int64_t each) {
  return place_pair({1024, 1024, 64}, "RRR", {1, 1}, "RRR", {hosts, each});
}

// R4, R5 and Figure 5: T(A, B) of each strategy.
TEST(ReshardPlan, of_one_sender_takes_a_b_t_by_messages_and_t_by_broadcast) {
  for (std::int64_t hosts = 1; hosts <= 4; ++hosts)
    for (std::int64_t each = 1; each <= 4; ++each) {
      const MeshPair pair = one_to_many(hosts, each);
      const auto a = static_cast<double>(hosts), all = static_cast<double>(hosts * each);
      EXPECT_NEAR(time_of(pair, Strategy::send_recv), all, 1e-9);
      EXPECT_NEAR(time_of(pair, Strategy::local_all_gather), a, 1e-9);
      EXPECT_NEAR(time_of(pair, Strategy::global_all_gather), hosts == 1 ? 1 : 1 + (all - 1) / all,
                  1e-9);
      EXPECT_NEAR(time_of(pair, Strategy::broadcast, Ordering::best, 100), (100 + a - 1) / 100,
                  1e-9);
      EXPECT_LE(time_of(pair, Strategy::broadcast), 1.01);
      EXPECT_LE(time_of(pair, Strategy::signal), 1e-6);
    }
}

TEST(ReshardPlan, of_alpa_falls_back_where_receivers_do_not_divide) {
  // On one host: t, but for three ranks, which get all of it each.
  EXPECT_NEAR(time_of(one_to_many(1, 2), Strategy::alpa), 1, 1e-9);
  EXPECT_NEAR(time_of(one_to_many(1, 3), Strategy::alpa), 3, 1e-9);
  EXPECT_NEAR(time_of(one_to_many(1, 4), Strategy::alpa), 1, 1e-9);
  // On hosts of two: the all-gather crosses hosts; of six ranks only two gather a copy each.
  EXPECT_NEAR(time_of(one_to_many(2, 2), Strategy::alpa), 1.75, 1e-9);
  EXPECT_NEAR(time_of(one_to_many(3, 2), Strategy::alpa), 3, 1e-9);
  EXPECT_NEAR(time_of(one_to_many(4, 2), Strategy::alpa), 1.875, 1e-9);
}

// R1 to R3: what the model leaves of the paper's ratios.
TEST(ReshardPlan, of_alpa_is_as_much_longer_as_the_model_says) {
  const auto ratio = [](int number) {
    return time_of(pair_of(number), Strategy::alpa) / time_of(pair_of(number), Strategy::broadcast);
  };
  EXPECT_NEAR(ratio(3), 1.5, 0.005);
  EXPECT_NEAR(ratio(4), 1.875, 0.005);
  EXPECT_NEAR(ratio(9), 1.5, 0.005);
  EXPECT_NEAR(ratio(1), 1, 0.005);
  EXPECT_NEAR(ratio(2), 1, 0.005);
  EXPECT_NEAR(ratio(5), 1.5, 0.005);
  // Cases 7 and 8 against T_bc = t (K + A) / K of the paper, K = 100: an all-gather over all
  // receivers, of the exact ring and of 2 t.
  const auto gathered = [](int number, double hosts) {
    return time_of(pair_of(number), Strategy::global_all_gather) / (1 + hosts / 100);
  };
  EXPECT_NEAR(gathered(7, 2), 1.84, 0.005);
  EXPECT_NEAR(gathered(8, 3), 1.78, 0.005);
  EXPECT_NEAR(2 / 1.02, 1.96, 0.005);
  EXPECT_NEAR(2 / 1.03, 1.94, 0.005);
}

TEST(ReshardPlan, counts_the_bytes_between_hosts) {
  const std::int64_t tensor = 1024LL * 1024 * 512 * 4;
  const auto bytes = [&](int number, Strategy strategy) {
    return static_cast<double>(plan_of(pair_of(number), strategy).bytes_between_hosts) /
           static_cast<double>(tensor);
  };
  EXPECT_EQ(bytes(1, Strategy::broadcast), 1);
  EXPECT_EQ(bytes(1, Strategy::send_recv), 4);
  EXPECT_EQ(bytes(1, Strategy::local_all_gather), 1);
  EXPECT_EQ(bytes(7, Strategy::broadcast), 2);
  EXPECT_EQ(bytes(7, Strategy::local_all_gather), 2);
  // Shares once, and then two links of the ring of eight.
  EXPECT_EQ(bytes(7, Strategy::global_all_gather), 1 + 2 * 7. / 8);
  EXPECT_EQ(plan_of(pair_of(4), Strategy::signal).bytes_between_hosts, 64);
}

TEST(ReshardPlan, keeps_within_a_host_what_is_there) {
  // Rank 0 on host 0 sends to ranks 1 (its mate) and 2 (host 1).
  const Placement from = placement_of({8}, "R", {1, 1}, {Rank(0)});
  const Placement to = placement_of({8}, "R", {1, 3}, {Rank(0), Rank(1), Rank(2)});
  ReshardOptions options;
  options.links = port_model;
  const ReshardPlan plan =
      make_plan(from, to, std::vector{HostId(0), HostId(0), HostId(1)}, options);
  ASSERT_EQ(plan.transfers.size(), 2U);
  EXPECT_FALSE(plan.transfers[0].is_local);
  EXPECT_EQ(plan.transfers[0].groups, (std::vector<std::vector<Rank>>{{Rank(2)}}));
  EXPECT_TRUE(plan.transfers[1].is_local);
  EXPECT_EQ(plan.copies, (std::vector<LocalCopy>{{Rank(0), {{0, 8}}}}));
  EXPECT_EQ(plan.bytes_between_hosts, 32);
  EXPECT_EQ(plan.makespan_s, 32);
}

TEST(ReshardPlan, is_printed_with_its_makespan_and_its_bound) {
  const MeshPair pair = place_pair({4, 4}, "S01R", {2, 2}, "S0R", {2, 2});
  EXPECT_EQ(to_text(plan_of(pair, Strategy::broadcast, Ordering::best, 2)),
            "reshard [4, 4] of 4 bytes each: 4 unit tasks by broadcast, ordered by best\n"
            "makespan 3.2e+04 ms, lower bound 3.2e+04 ms, 64 bytes between hosts\n"
            "  [0:1, 0:4] from 0 to 4 5, at 0 ms, in 2 chunks\n"
            "  [2:3, 0:4] from 2 to 6 7, at 0 ms, in 2 chunks\n"
            "  [1:2, 0:4] from 1 to 4 5, at 1.6e+04 ms, in 2 chunks\n"
            "  [3:4, 0:4] from 3 to 6 7, at 1.6e+04 ms, in 2 chunks\n");
}

TEST(ReshardPlan, is_the_same_on_every_rank) {
  const MeshPair pair = pair_of(4);
  std::vector<std::string> texts;
  comm::ThreadJob job(4);
  job.run([&](comm::World& world) {
    const auto gathered = world.all_gather(to_text(plan_of(pair, Strategy::broadcast)));
    if (world.rank().index() == 0) texts = gathered;
  });
  ASSERT_EQ(texts.size(), 4U);
  EXPECT_EQ(std::ranges::count(texts, texts.front()), 4);
}

/// ReshardPromise has how long that takes.
TEST(ReshardPlan, of_128_to_128_ranks_is_near_its_lower_bound) {
  const MeshPair pair = place_pair({256, 256}, "S01R", {16, 8}, "RS01", {16, 8});
  const ReshardPlan plan = plan_of(pair, Strategy::broadcast, Ordering::best, 1);
  EXPECT_EQ(plan.transfers.size(), 128U * 128U);
  EXPECT_LE(plan.makespan_s, 1.05 * plan.lower_bound_s);
}

TEST(Strategy, has_a_name) {
  for (const std::string_view name : strategy_names())
    EXPECT_EQ(to_string(parse_strategy(name).value()), name);
  EXPECT_FALSE(parse_strategy("other"));
}

}  // namespace
}  // namespace fourfold::reshard
