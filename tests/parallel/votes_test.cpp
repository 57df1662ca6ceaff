// What ranks vote in a step: every rank reads the same counts, and nobody applies what one of them
// votes against; the hosts do not meet for it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>

#include "support/grids.h"
#include "support/session_run.h"

namespace fourfold {
namespace {

using test::GridRun;
using test::run_session;
using test::RunSetup;
using test::SessionSetup;
using test::SmallRun;
using test::Told;

std::vector<RunSetup> setups() {
  std::vector<RunSetup> list;
  for (const plan::Grid& grid :
       {plan::Grid{.data = 1}, plan::Grid{.data = 4}, plan::Grid{.x = 2, .data = 2},
        plan::Grid{.y = 2, .z = 2, .data = 1}, plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}})
    for (const bool shard_states : {false, true}) {
      RunSetup setup = test::first_model();
      test::set_grid(setup, grid);
      setup.plan.shard_states = shard_states;
      list.push_back(setup);
    }
  return list;
}

TEST(Votes, of_all_ranks_are_counted_and_every_rank_reads_the_same) {
  for (const RunSetup& setup : setups()) {
    SCOPED_TRACE(test::name_of(setup.plan));
    GridRun grid(setup);
    const auto ranks = static_cast<std::int64_t>(grid.num_ranks());
    grid.run([&](GridRun::RankRun& rank) {
      auto feeder = test::random_batch(setup);
      rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
      const auto votes_of = [&](std::int64_t step, const op::Votes& own) {
        op::StepBlock block = SmallRun::block(step, 1e-3, 1);
        block.vote = own.packed();
        const op::ResultBlock result = rank.executor.run(op::ProgramKind::train, block, &feeder);
        EXPECT_EQ(result.applied, 1);
        return op::Votes::of(result.votes);
      };
      const bool is_last = rank.rank + 1 == grid.num_ranks();
      EXPECT_EQ(votes_of(0, {}), op::Votes{});
      EXPECT_EQ(votes_of(1, {.stop = is_last ? 1 : 0}), op::Votes{.stop = 1});
      EXPECT_EQ(votes_of(2, {.stop = 1, .written = 1, .save = rank.rank == 0 ? 1 : 0}),
                (op::Votes{.stop = ranks, .written = ranks, .save = 1}));
      EXPECT_EQ(votes_of(3, {}), op::Votes{});
    });
  }
}

/// A fault of one replica alone: the sums of the others are sound. The update finds it, the next
/// step's votes tell of it.
TEST(Votes, of_one_rank_against_a_step_keep_all_ranks_from_applying_it) {
  for (const RunSetup& setup : setups()) {
    SCOPED_TRACE(test::name_of(setup.plan));
    GridRun grid(setup);
    grid.run([&](GridRun::RankRun& rank) {
      auto feeder = test::random_batch(setup);
      rank.executor.run(op::ProgramKind::init, SmallRun::block(0, 0, 1));
      const program::Program& train = rank.bundle.at(op::ProgramKind::train);
      const auto bytes_of = [&](const char* name) {
        return rank.executor.bytes(train.buffer(train.find_buffer(name).value()));
      };
      if (rank.rank == 0) {
        const double nan = std::nan("");
        std::memcpy(bytes_of("v/ln_f.gain").data(), &nan, sizeof nan);
      }
      const auto view = bytes_of("blocks.0.mlp.up.weight");
      const std::span<std::byte> weights = view.span();
      EXPECT_EQ(
          rank.executor.run(op::ProgramKind::train, SmallRun::block(0, 1e-3, 1), &feeder).applied,
          1);
      const std::vector<std::byte> before(weights.begin(), weights.end());
      const op::ResultBlock result =
          rank.executor.run(op::ProgramKind::train, SmallRun::block(1, 1e-3, 1), &feeder);
      EXPECT_EQ(result.applied, 0);
      EXPECT_GE(op::Votes::of(result.votes).against, 1);
      EXPECT_TRUE(std::ranges::equal(weights, before)) << "rank " << rank.rank;
    });
  }
}

class VotesOfHosts : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / format("fourfold-votes-{}", getpid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static SessionSetup on_four_ranks(std::int64_t steps) {
    SessionSetup setup;
    setup.run.plan.global_batch_size = 8;
    setup.run.plan.micro_batch_size = 2;
    setup.run.plan.grid.x = 2;
    setup.run.plan.grid.data = 2;
    setup.spec.steps = steps;
    setup.spec.replica_check_steps = 0;
    return setup;
  }
  /// How often the host of a rank has met the others.
  static std::int64_t meetings(const GridRun::RankRun& rank) {
    std::int64_t calls = 0;
    for (const CollectiveFacts& row : collectives)
      calls += rank.world.everyone().traffic(row.kind).calls;
    return calls;
  }
  std::string folder() const { return folder_ / "checkpoints"; }
  std::vector<std::int64_t> saved() const {
    return checkpoint::Store(real_files(), folder()).steps();
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(VotesOfHosts, are_cast_without_a_meeting_between_steps_that_are_not_the_tenth) {
  SessionSetup setup = on_four_ranks(32);
  setup.checkpoints = folder();
  std::vector<std::int64_t> calls(32);
  setup.behind = [&](GridRun::RankRun& rank, std::int64_t step) {
    if (rank.rank == 1) calls[static_cast<std::size_t>(step) - 1] = meetings(rank);
  };
  run_session(setup);
  // Before the last one is told it is saved and evaluated, where hosts meet.
  for (std::size_t step = 1; step + 1 < calls.size(); ++step)
    EXPECT_EQ(calls[step] - calls[step - 1], step % 10 == 9 ? 1 : 0) << "step " << step + 1;
}

TEST_F(VotesOfHosts, stop_all_ranks_behind_the_next_step_whoever_was_asked) {
  for (std::size_t asked = 0; asked < 4; ++asked) {
    SessionSetup setup = on_four_ranks(20);
    setup.checkpoints = folder();
    setup.stop = std::pair(asked, std::int64_t{5});
    const Told told = run_session(setup);
    EXPECT_TRUE(told.was_stopped);
    EXPECT_EQ(told.steps.size(), 6U);
    EXPECT_EQ(saved(), std::vector<std::int64_t>{6});
    checkpoint::Store(real_files(), folder()).clear();
  }
}

TEST_F(VotesOfHosts, save_when_the_clock_of_rank_0_says_so_and_commit_what_all_have_written) {
  SessionSetup setup = on_four_ranks(40);
  setup.checkpoints = folder();
  setup.checkpoint.interval_minutes = 1e-9;
  setup.checkpoint.keep_last = 1000;
  EXPECT_EQ(run_session(setup).steps.size(), 40U);
  // A save that is under way is waited for when the next one is due: one a step.
  EXPECT_EQ(saved().size(), 40U);
}

TEST_F(VotesOfHosts, commit_a_checkpoint_once_all_ranks_have_written_it) {
  SessionSetup setup = on_four_ranks(599);
  setup.checkpoint = {.interval_steps = 300, .interval_minutes = 0};
  setup.checkpoints = folder();
  bool was_committed = false;  // before anything else was due
  setup.behind = [&](GridRun::RankRun& rank, std::int64_t step) {
    if (rank.rank == 0 && step == 598) was_committed = saved() == std::vector<std::int64_t>{300};
  };
  run_session(setup);
  EXPECT_TRUE(was_committed);
  EXPECT_EQ(saved(), (std::vector<std::int64_t>{599, 300}));
}

}  // namespace
}  // namespace fourfold
