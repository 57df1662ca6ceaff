#include "reshard/lower.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/long_run.h"
#include "unit/reshard/random_pairs.h"
#include "unit/reshard/transport.h"

namespace fourfold::reshard {
namespace {

ReshardPlan small_plan(const MeshPair& pair, Strategy strategy,
                       std::optional<std::int64_t> chunks = std::nullopt) {
  ReshardOptions options;
  options.strategy = strategy;
  options.chunks = chunks;
  options.links = {{1e-6, 1e9}, {1e-7, 1e10}};
  options.limits.steps = 2000;
  return make_plan(pair.from, pair.to, pair.host_of, options);
}

void expect_exact(const MeshPair& pair, const std::string& words,
                  std::optional<std::int64_t> chunks) {
  for (const std::string_view name : strategy_names()) {
    const Strategy strategy = parse_strategy(name).value();
    const ReshardPlan plan = small_plan(pair, strategy, chunks);
    for (const auto& [turns, gathers] : {std::pair(Turns::free, Gathers::whole),
                                         {Turns::kept, Gathers::whole},
                                         {Turns::free, Gathers::by_ring}}) {
      Transport transport(pair);
      ASSERT_TRUE(
          transport.carry_out(lower(plan, pair.host_of, turns, gathers), plan.element_bytes))
          << words << " by " << name << " blocks";
      if (strategy == Strategy::signal) continue;
      ASSERT_TRUE(transport.is_exact()) << words << " by " << name;
      if (turns == Turns::free) {
        ASSERT_EQ(transport.bytes_between_hosts(), plan.bytes_between_hosts)
            << words << " by " << name;
      }
    }
  }
}

TEST(Lower, moves_every_element_in_the_nine_cases) {
  for (const PaperCase& one : paper_cases())
    expect_exact(place_pair(shape_of(one, 4096), one.from, one.from_mesh, one.to, one.to_mesh),
                 "case " + std::to_string(one.number), std::nullopt);
}

TEST(Lower, moves_every_element_of_figure_2) {
  expect_exact(place_pair({4, 4}, "S01R", {2, 2}, "S0R", {2, 2}), "task 1", std::nullopt);
  expect_exact(place_pair({4, 4}, "S0R", {2, 2}, "S0S1", {2, 2}), "task 2", std::nullopt);
}

TEST(Lower, moves_every_element_between_random_meshes) {
  const std::uint64_t count = is_long_run() ? 4000 : 1000;
  for (std::uint64_t number = 0; number < count && !HasFatalFailure(); ++number) {
    const RandomPair made = random_pair(number);
    expect_exact(made.pair, made.words,
                 number % 3 == 0 ? std::nullopt : std::optional<std::int64_t>(number % 7 + 1));
  }
}

TEST(Lower, forwards_each_chunk_before_the_next_comes) {
  const MeshPair pair = place_pair({4}, "R", {1, 1}, "R", {2, 1});
  const auto lists = lower(small_plan(pair, Strategy::broadcast, 2), pair.host_of, Turns::free);
  EXPECT_EQ(to_text(lists[0]), "send [0:2] to 1\nsend [2:4] to 1\n");
  EXPECT_EQ(to_text(lists[1]),
            "receive [0:2] from 0\nsend [0:2] to 2\nreceive [2:4] from 0\nsend [2:4] to 2\n");
  EXPECT_EQ(waits_for(lists[1]), (std::vector<std::size_t>{0, 1, 0, 3}));
}

TEST(Lower, gathers_shares_within_a_host) {
  const MeshPair pair = place_pair({4}, "R", {1, 1}, "R", {1, 2});
  const auto lists = lower(small_plan(pair, Strategy::local_all_gather), pair.host_of, Turns::free);
  EXPECT_EQ(to_text(lists[0]), "send [0:2] to 1\nsend [2:4] to 2\n");
  EXPECT_EQ(to_text(lists[2]), "receive [2:4] from 0\ngather 1 [0:2] 2 [2:4]\n");
  EXPECT_EQ(waits_for(lists[2]), (std::vector<std::size_t>{0, 1}));
}

TEST(Lower, gathers_shares_in_messages_round_a_ring) {
  const MeshPair pair = place_pair({6}, "R", {1, 1}, "R", {1, 3});
  const auto lists = lower(small_plan(pair, Strategy::local_all_gather), pair.host_of, Turns::free,
                           Gathers::by_ring);
  EXPECT_EQ(to_text(lists[0]), "send [0:2] to 1\nsend [2:4] to 2\nsend [4:6] to 3\n");
  EXPECT_EQ(to_text(lists[1]),
            "receive [0:2] from 0\nsend [0:2] to 2\nreceive [4:6] from 3\n"
            "send [4:6] to 2\nreceive [2:4] from 3\n");
  EXPECT_EQ(waits_for(lists[1]), (std::vector<std::size_t>{0, 1, 0, 3, 0}));
}

TEST(Lower, lets_ranks_of_a_host_take_turns) {
  // Two ranks of one host each send to a host of their own: one port, so one after the other.
  const MeshPair pair = place_pair({4}, "S1", {1, 2}, "S0", {2, 1});
  const ReshardPlan plan = small_plan(pair, Strategy::broadcast, 1);
  const auto kept = lower(plan, pair.host_of, Turns::kept);
  EXPECT_EQ(to_text(kept[0]), "send [0:2] to 2\nsend 1 byte to 1\n");
  EXPECT_EQ(to_text(kept[1]), "receive 1 byte from 0\nsend [2:4] to 3\n");
  EXPECT_EQ(waits_for(kept[1]), (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(to_text(lower(plan, pair.host_of, Turns::free)[1]), "send [2:4] to 3\n");
}

}  // namespace
}  // namespace fourfold::reshard
