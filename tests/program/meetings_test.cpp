// Who meets whom in jobs of several ranks.
#include "program/meetings.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "program/jobs.h"

namespace fourfold::program {
namespace {

/// What the bundle of every rank says by itself.
void expect_as_bundles_say(const Job& job) {
  for (std::size_t program = 0; program < job.classes[0].programs.size(); ++program) {
    const Meetings all = meetings(job, program);
    Communicators communicators;
    for (std::size_t rank = 0; rank < job.ranks.size(); ++rank) {
      const Program own = bundle_of(job, Rank(rank)).programs[program];
      EXPECT_EQ(all.classes[job.ranks[rank].of_class], stops_of(own));
      EXPECT_EQ(all.ranks[rank], partners_of(own, communicators));
    }
    ASSERT_EQ(all.communicators.size(), communicators.size());
    for (std::uint32_t i = 0; i < communicators.size(); ++i)
      EXPECT_EQ(all.communicators.text(i), communicators.text(i));
  }
}

TEST(Meetings, of_a_job_are_those_of_the_bundles_of_its_ranks) {
  const Grid grid{2, 1, 2, 1};
  const std::vector<Bundle> bundles = grid_job(grid);
  expect_as_bundles_say(Job{{bundles[0]}, std::vector<Binding>(bundles.size())});
  expect_as_bundles_say(job_of(pipeline_job(2)));
}

TEST(Meetings, of_a_group_are_in_one_communicator_which_all_its_members_share) {
  const std::vector<Bundle> bundles = grid_job({2, 1, 2, 1});
  const Meetings all = meetings(Job{{bundles[0]}, std::vector<Binding>(bundles.size())}, 1);
  // Two lines of data, four of z, two of y and four of x.
  ASSERT_EQ(all.communicators.size(), 12);
  for (std::size_t rank = 0; rank < bundles.size(); ++rank)
    for (const std::uint32_t group : all.ranks[rank].groups)
      EXPECT_TRUE(all.communicators[group].members.has(Rank(rank)));
  EXPECT_EQ(all.communicators.text(all.ranks[3].groups[0]), "data of mesh main: ranks 1 3");
}

TEST(Meetings, name_every_stop_of_a_stream_in_its_order) {
  const Bundle bundle = pipeline_job(1)[0];
  for (const Program& program : bundle.programs) {
    const Stops stops = stops_of(program);
    std::vector<std::size_t> next(program.streams.size(), 0);
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      const std::vector<Stop>& stream = stops.streams[instruction.stream.index()];
      std::size_t& at = next[instruction.stream.index()];
      const bool stops_here = at < stream.size() && stream[at].instruction == i;
      const bool is_work = std::holds_alternative<Compute>(instruction.what) ||
                           std::holds_alternative<Copy>(instruction.what) ||
                           std::holds_alternative<Feed>(instruction.what);
      EXPECT_NE(stops_here, is_work) << name(instruction);
      at += stops_here ? 1 : 0;
    }
    for (std::size_t i = 0; i < stops.messages.size(); ++i)
      EXPECT_EQ(stops.messages[i].is_send,
                name(program.instructions[stops.messages[i].instruction]) == "send");
  }
}

}  // namespace
}  // namespace fourfold::program
