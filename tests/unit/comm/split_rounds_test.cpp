#include "comm/split_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "comm/threads.h"

namespace fourfold::comm {
namespace {

/// The groups along each axis of a grid of 2 x 2 x 2.
std::vector<Party> parties_of_a_cube() {
  std::vector<Party> parties;
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (std::size_t rank = 0; rank < 8; ++rank)
      if ((rank >> axis & 1) == 0)
        parties.push_back({std::string(1, static_cast<char>('x' + axis)),
                           {Rank(rank), Rank(rank + (std::size_t{1} << axis))}});
  return parties;
}

TEST(SplitRounds, the_groups_of_an_axis_take_one_round) {
  const std::vector<Party> parties = parties_of_a_cube();
  const std::vector<SplitRound> rounds = rounds_of(parties, 8);
  ASSERT_EQ(rounds.size(), 3);
  for (const SplitRound& round : rounds) {
    ASSERT_EQ(round.size(), 4);
    for (const std::size_t i : round) EXPECT_EQ(parties[i].name, parties[round[0]].name);
  }
}

TEST(SplitRounds, parties_of_one_round_have_no_rank_in_common_and_each_has_its_round) {
  const std::vector<Party> parties = {{"a", {Rank(0), Rank(1)}},
                                      {"b", {Rank(2), Rank(0)}},
                                      {"c", {Rank(2), Rank(3)}},
                                      {"d", {Rank(1)}},
                                      {"e", {Rank(3), Rank(1), Rank(0)}}};
  const std::vector<SplitRound> rounds = rounds_of(parties, 4);
  EXPECT_EQ(rounds, (std::vector<SplitRound>{{0, 2}, {1, 3}, {4}}));
}

TEST(SplitRounds, all_ranks_get_the_same_list_whatever_the_order_of_their_own) {
  const std::vector<Party> wanted = [] {
    std::vector<Party> sorted = parties_of_a_cube();
    sorted.push_back({"a name, of words", {Rank(7), Rank(2), Rank(5)}});
    std::ranges::sort(sorted);
    return sorted;
  }();
  ThreadJob job(8);
  std::vector<std::vector<Party>> lists(8);
  job.run([&](World& world) {
    std::vector<Party> own;
    for (const Party& party : wanted)
      // Some tell what they are no member of, which does not count.
      if (std::ranges::find(party.members, world.rank()) != party.members.end() ||
          world.rank() == Rank(3))
        own.push_back(party);
    if (world.rank().index() % 2 == 1) std::ranges::reverse(own);
    lists[world.rank().index()] = parties_of_all(world, own);
  });
  for (const auto& list : lists) EXPECT_EQ(list, wanted);
}

std::string fault_of(const std::vector<Party>& first, const std::vector<Party>& second) {
  ThreadJob job(2);
  try {
    job.run([&](World& world) { parties_of_all(world, world.rank() == Rank(0) ? first : second); });
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ExitCode::ranks_disagree);
    return error.what();
  }
  return "agreed";
}

TEST(SplitRounds, a_group_that_only_one_member_wants_is_named_with_both_ranks) {
  const Party x{"x", {Rank(0), Rank(1)}}, y{"y", {Rank(0), Rank(1)}};
  EXPECT_EQ(fault_of({x}, {x}), "agreed");
  EXPECT_EQ(fault_of({x, y}, {x}),
            "rank 1: rank 0 wants y of ranks 0 1, and rank 1 does not; their programs do not fit "
            "together");
  EXPECT_EQ(fault_of({x}, {x, y}),
            "rank 1: rank 1 wants y of ranks 0 1, and rank 0 does not; their programs do not fit "
            "together");
}

}  // namespace
}  // namespace fourfold::comm
