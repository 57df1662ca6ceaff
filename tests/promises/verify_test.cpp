// How long proofs of large programs take.
#include <gtest/gtest.h>

#include <string>

#include "base/stopwatch.h"
#include "program/jobs.h"
#include "promises/promise.h"
#include "verify/faults.h"
#include "verify/long_program.h"
#include "verify/verify_job.h"

namespace fourfold::verify {
namespace {

TEST(VerifyPromise, fifty_thousand_instructions_take_less_than_five_seconds) {
  const Program program = long_program(8000);
  ASSERT_GE(program.instructions.size(), 50000U);
  const Stopwatch watch;
  EXPECT_EQ(all(verify(program)), "");
  test::expect_at_most("prove a program of 50,000 instructions", watch.seconds(), 5, "s");
}

/// GPT-80B on 1024 ranks, in less than 40 s.
TEST(VerifyPromise, many_ranks_with_fifty_thousand_instructions_take_little_time) {
  const Grid grid{16, 2, 2, 2};
  program::Job job;
  job.classes = {grid_bundle(grid, Rank(0), 360)};
  job.ranks.resize(static_cast<std::size_t>(grid.ranks()));
  EXPECT_GE(job.classes[0].programs[1].instructions.size(), 50000U);
  const Stopwatch watch;
  EXPECT_EQ(all(verify(job)).substr(0, 2000), "");
  test::expect_at_most("prove a job of as many on each rank, a rank",
                       1e3 * watch.seconds() / static_cast<double>(grid.ranks()), 40, "ms");
}

/// Boxes of columns, in 256 rows each where they are received. Twice the messages take twice the
/// time, where each is looked for among all others four times.
TEST(VerifyPromise, many_boxes_take_time_by_their_number) {
  const auto seconds_of = [](std::int64_t micros) {
    const Job job = job_of(hand_over_job({.shape = {4, 256, 16},
                                          .senders = 4,
                                          .receivers = 4,
                                          .sender_cuts = {"", "", "r"},
                                          .receiver_cuts = {"r", "", ""},
                                          .micros = micros}));
    const Stopwatch watch;
    EXPECT_EQ(all(verify(job)), "");
    return watch.seconds();
  };
  const double half_s = seconds_of(64), whole_s = seconds_of(128);
  test::expect_at_most("prove 2,048 messages in boxes, beside 1,024 of them", whole_s / half_s, 3,
                       "times");
}

}  // namespace
}  // namespace fourfold::verify
