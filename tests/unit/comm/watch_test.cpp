// Who is late, and the words for it.
#include "comm/watch.h"

#include <gtest/gtest.h>

namespace fourfold::comm {
namespace {

/// A rank in a program: its math stream does one thing, its data stream another.
RankState in_program(std::size_t rank, const std::string& math, const std::string& data,
                     std::uint32_t begun = 10) {
  RankState state;
  state.rank = Rank(rank);
  state.host = "n1";
  state.pid = 100 + static_cast<std::int64_t>(rank);
  state.step = 7;
  state.in_program = true;
  state.workers = {{"math", math, false, begun}, {"data", data, true, begun}};
  return state;
}
RankState waiting(std::size_t rank, std::uint32_t begun = 10) {
  return in_program(rank, "", "instruction 3 (all_reduce)", begun);
}
RankState unchanged(RankState state, double seconds) {
  state.unchanged_s = seconds;
  return state;
}
RankState silent(RankState state, double seconds) {
  state.silent_s = state.unchanged_s = seconds;
  return state;
}
RankState outside(std::size_t rank) {
  RankState state = waiting(rank);
  state.in_program = false;
  state.workers.clear();
  return state;
}

TEST(Judge, nothing_is_wrong_while_any_rank_gets_on) {
  const RankState ranks[] = {unchanged(waiting(0), 100), unchanged(waiting(1), 29)};
  EXPECT_FALSE(judge(ranks, 30));
}

TEST(Judge, nothing_is_wrong_while_no_program_runs) {
  const RankState ranks[] = {unchanged(outside(0), 1e6), unchanged(outside(1), 1e6)};
  EXPECT_FALSE(judge(ranks, 30));
}

TEST(Judge, the_rank_that_works_while_others_wait_is_late) {
  const RankState ranks[] = {unchanged(waiting(0), 31), unchanged(waiting(1, 9), 31),
                             unchanged(in_program(2, "instruction 2 (feed)", ""), 31)};
  const auto verdict = judge(ranks, 30);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->late, Rank(2));
  EXPECT_EQ(
      verdict->message,
      "no rank has made progress for 31.0 s; rank 2 (n1, pid 102) is late: after step 7, math: "
      "instruction 2 (feed)");
  EXPECT_EQ(verdict->dump,
            (std::vector<std::string>{
                "rank 0 (n1, pid 100): after step 7, data: instruction 3 (all_reduce)",
                "rank 1 (n1, pid 101): after step 7, data: instruction 3 (all_reduce)",
                "rank 2 (n1, pid 102): after step 7, math: instruction 2 (feed)"}));
}

TEST(Judge, of_ranks_that_all_wait_the_one_that_did_least_is_late) {
  const RankState ranks[] = {unchanged(waiting(0, 12), 31), unchanged(waiting(1, 11), 31),
                             unchanged(waiting(2, 12), 31)};
  EXPECT_EQ(judge(ranks, 30)->late, Rank(1));
}

TEST(Judge, a_rank_outside_of_programs_is_late_only_after_ten_times_as_long) {
  const RankState soon[] = {unchanged(waiting(0), 299), unchanged(outside(1), 299)};
  EXPECT_FALSE(judge(soon, 30));
  const RankState late[] = {unchanged(waiting(0), 301), unchanged(outside(1), 301)};
  EXPECT_EQ(judge(late, 30)->late, Rank(1));
}

TEST(Judge, a_silent_rank_is_late_whatever_the_others_do) {
  const RankState ranks[] = {unchanged(waiting(0), 1), silent(waiting(1), 31)};
  const auto verdict = judge(ranks, 30);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->late, Rank(1));
  EXPECT_EQ(verdict->message.substr(0, 53),
            "rank 1 (n1, pid 101) has not answered for 31.0 s: it ");
}

TEST(Judge, a_rank_that_was_stopped_is_preferred_to_one_that_works) {
  // The stopped one was heard a little later than the others last got on.
  const RankState ranks[] = {unchanged(in_program(0, "instruction 2 (contract)", ""), 31),
                             unchanged(silent(waiting(1), 29), 31)};
  EXPECT_EQ(judge(ranks, 30)->late, Rank(1));
}

TEST(RankStateLine, reads_back) {
  RankState state = in_program(3, "instruction 2 (feed \"a\")", "");
  state.ticks = ~std::uint64_t{0};
  auto back = parse_state(to_line(state));
  ASSERT_TRUE(back);
  state.host.clear();
  state.pid = 0;
  EXPECT_EQ(*back, state);
}

TEST(RankStateLine, text_that_is_no_state_is_nothing) {
  for (const char* line : {"", "{}", "[1]", "{\"rank\":1}",
                           "{\"rank\":\"x\",\"step\":1,"
                           "\"in_program\":true,\"ticks\":\"1\",\"workers\":[]}",
                           "{\"rank\":0,\"step\":1,\"in_program\":true,\"ticks\":\"x\","
                           "\"workers\":[]}",
                           "{\"rank\":0,\"step\":1,\"in_program\":true,\"ticks\":\"1\","
                           "\"workers\":[{}]}"})
    EXPECT_FALSE(parse_state(line)) << line;
}

TEST(DeathNotice, says_who_where_and_where_this_rank_is) {
  EXPECT_EQ(death_notice(in_program(3, "instruction 2 (contract)", ""), outside(0)),
            "rank 3 (n1, pid 103) died; it was last seen after step 7, math: instruction 2 "
            "(contract). This is rank 0 (n1, pid 100), after step 7, outside of programs");
}

TEST(Progress, counts_begins_and_ends_and_describes_what_is_under_way) {
  Progress progress;
  progress.set_workers({"math", "data"}, [](Place place) {
    return Progress::Description{
        std::to_string(place.program) + "." + std::to_string(place.instruction),
        place.instruction == 5};
  });
  std::uint64_t ticks = progress.ticks();
  const auto changed = [&] { return std::exchange(ticks, progress.ticks()) != progress.ticks(); };
  EXPECT_FALSE(changed());
  progress.begin(1, {2, 5});
  EXPECT_TRUE(changed());
  EXPECT_EQ(progress.workers()[1], (WorkerState{"data", "2.5", true, 1}));
  EXPECT_EQ(progress.workers()[0], (WorkerState{"math", "", false, 0}));
  progress.end(1, {2, 5});
  EXPECT_TRUE(changed());
  EXPECT_EQ(progress.workers()[1], (WorkerState{"data", "", false, 1}));
  progress.begin_program();
  EXPECT_TRUE(changed() && progress.in_program());
  progress.clear_workers();
  EXPECT_TRUE(progress.workers().empty());
}

}  // namespace
}  // namespace fourfold::comm
