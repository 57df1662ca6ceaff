// Clocks of several ranks compared, and what they recorded brought to one.
#include "run/gather_recordings.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "comm/threads.h"
#include "run/clock_offset.h"

namespace fourfold::run {
namespace {

TEST(ClockOffset, the_ping_with_the_shortest_round_trip_counts) {
  // The remote clock shows 1000 more; the second ping was held up on its way back.
  const std::array<Ping, 3> pings{{{0, 1060, 100}, {200, 1210, 290}, {300, 1310, 320}}};
  EXPECT_EQ(estimate_offset_ns(pings), -1000);
}

TEST(ClockOffset, is_found_to_half_of_a_round_trip_and_zero_on_one_clock) {
  constexpr std::array<std::int64_t, 4> skew_ns = {0, 5'000'000'000, -7'000'000'000, 123};
  const std::array<std::string, 4> clocks = {"a", "b", "c", "a"};
  comm::ThreadJob job(4);
  job.run([&](comm::World& world) {
    const std::size_t rank = world.rank().index();
    const auto now_ns = [&] { return trace::now_ns() + skew_ns[rank]; };
    const std::int64_t offset_ns = clock_offset_ns(world, clocks[rank], now_ns);
    if (rank == 0 || rank == 3)
      EXPECT_EQ(offset_ns, 0);
    else
      // Half of the shortest of many round trips between threads; far below the skews.
      EXPECT_LT(std::abs(offset_ns + skew_ns[rank]), 50'000'000);
  });
}

TEST(ClockOffset, hosts_that_do_not_name_their_clock_are_compared) {
  comm::ThreadJob job(2);
  job.run([&](comm::World& world) {
    const auto now_ns = [&] {
      return trace::now_ns() + (world.rank() == Rank(1) ? 1'000'000'000 : 0);
    };
    const std::int64_t offset_ns = clock_offset_ns(world, "", now_ns);
    EXPECT_EQ(offset_ns == 0, world.rank() == Rank(0));
  });
}

TEST(GatherRecordings, the_first_rank_gets_what_each_has_recorded) {
  comm::ThreadJob job(3);
  job.run([](comm::World& world) {
    const auto rank = static_cast<std::int64_t>(world.rank().index());
    // Ranks may have programs of different lengths.
    trace::Recorder recorder(op::ProgramKind::train, 2 + world.rank().index(), 0, 2);
    for (std::int64_t step = 0; step < 2; ++step) {
      recorder.begin_run(op::ProgramKind::train, step)[1] = {100 * rank + step,
                                                             100 * rank + step + 1};
      recorder.end_run({rank, rank + 50});
    }
    const std::vector<trace::Recording> all = gather_recordings(recorder, &world);
    if (rank != 0) {
      EXPECT_TRUE(all.empty());
      return;
    }
    ASSERT_EQ(all.size(), 3U);
    for (std::size_t from = 0; from < all.size(); ++from) {
      const auto number = static_cast<std::int64_t>(from);
      EXPECT_FALSE(all[from].host.empty());
      EXPECT_EQ(all[from].clock_offset_ns, 0);
      ASSERT_EQ(all[from].runs.size(), 2U);
      const trace::RecordedRun& last = all[from].runs[1];
      EXPECT_EQ(last.step, 1);
      EXPECT_EQ(last.whole, (trace::Interval{number, number + 50}));
      ASSERT_EQ(last.instructions.size(), 2 + from);
      EXPECT_EQ(last.instructions[1], (trace::Interval{100 * number + 1, 100 * number + 2}));
    }
  });
}

TEST(GatherRecordings, a_rank_alone_has_its_own) {
  trace::Recorder recorder(op::ProgramKind::train, 1, 0, 3);
  recorder.begin_run(op::ProgramKind::train, 6);
  recorder.end_run({1, 2});
  const std::vector<trace::Recording> all = gather_recordings(recorder, nullptr);
  ASSERT_EQ(all.size(), 1U);
  ASSERT_EQ(all[0].runs.size(), 1U) << "not those that have not come yet";
  EXPECT_EQ(all[0].runs[0].step, 6);
}

}  // namespace
}  // namespace fourfold::run
