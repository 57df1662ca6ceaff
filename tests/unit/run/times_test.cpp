// What the executor tells of the time a program took: waits of the math stream, intervals of
// instructions. No kernels, so that it runs under ThreadSanitizer too. Bounds are below what the
// programs sleep; a busy machine only makes them longer.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "comm/threads.h"
#include "run/cpu.h"
#include "run/executor.h"
#include "trace/recorder.h"
#include "unit/run/allocation_counter.h"
#include "unit/run/handmade.h"

namespace fourfold::run {
namespace {

constexpr double slept_s = 0.2;

/// Sleeps on some ranks before it feeds.
class SlowFeeder final : public Feeder {
 public:
  explicit SlowFeeder(bool sleeps) : sleeps_(sleeps) {}
  void feed(const Input&, const Samples&, std::span<std::byte>) override {
    if (sleeps_) std::this_thread::sleep_for(std::chrono::duration<double>(slept_s));
  }

 private:
  bool sleeps_;
};

/// The math stream waits for the feed; "x" then sums over both ranks.
struct FedSum {
  Handmade made{op::ProgramKind::train};
  program::EventId fed, copied, summed;
  program::BufferId sum;

  explicit FedSum(Rank rank) {
    program::Program& program = made.edit();
    program.rank = rank;
    program.world = 2;
    program.meshes = {{"all", {{"x", 2}}, {Rank(0), Rank(1)}}};
    program.groups = {{"x", MeshId(0), {AxisId(0)}, {Rank(0), Rank(1)}}};
    const auto tokens = made.tokens("tokens", {1, 2, 0, 1}, 4);
    sum = made.floats("sum", 4);
    fed = made.event(), copied = made.event(), summed = made.event();
    made.add("feed", made.feed(tokens));
    made.add("feed", program::Record{fed});
    made.add("math", program::Wait{fed});
    made.copy("math", sum, sum);
    made.add("math", program::Record{copied});
    made.add("x", program::Wait{copied});
    made.add("x", program::AllReduce{program::GroupId(0), Reduction::sum, {made.whole(sum)}});
    made.add("x", program::Record{summed});
  }
};

/// Runs `build`'s program on two ranks, of which the second sleeps in its feed.
template <class Build, class Look>
void run_two(const Build& build, const Look& look) {
  comm::ThreadJob job(2);
  job.run([&](comm::World& world) {
    const program::Bundle bundle = build(world.rank());
    CpuBackend backend({.world = &world});
    Executor executor(bundle, backend);
    SlowFeeder feeder(world.rank() == Rank(1));
    world.barrier();  // what is left is the jitter of a busy machine
    executor.run(op::ProgramKind::train, {}, &feeder);
    look(world.rank(), executor.times());
  });
}

TEST(Times, waits_for_the_feed_and_for_late_ranks_are_told_apart) {
  const auto build = [](Rank rank) {
    FedSum fed(rank);
    fed.made.add("math", program::Wait{fed.summed});
    return fed.made.bundle();
  };
  run_two(build, [](Rank rank, const RunTimes& times) {
    EXPECT_GE(times.total_s, 0.5 * slept_s);
    EXPECT_LE(times.exposed_communication_s + times.feed_wait_s, times.total_s);
    // Rank 1 waits for its feed, rank 0 for rank 1.
    const double exposed_s = times.exposed_communication_s, feed_s = times.feed_wait_s;
    EXPECT_GE(rank == Rank(0) ? exposed_s : feed_s, 0.5 * slept_s);
    EXPECT_EQ(exposed_s > feed_s, rank == Rank(0));
  });
}

TEST(Times, communication_behind_the_last_mathematics_is_exposed) {
  const auto build = [](Rank rank) { return FedSum(rank).made.bundle(); };
  run_two(build, [](Rank rank, const RunTimes& times) {
    EXPECT_LE(times.exposed_communication_s + times.feed_wait_s, times.total_s);
    if (rank == Rank(1)) return;
    EXPECT_GE(times.exposed_communication_s, 0.5 * slept_s);
  });
}

TEST(Times, a_run_without_others_and_without_feed_waits_for_nobody) {
  Handmade made(op::ProgramKind::train);
  const auto a = made.floats("a", 4);
  const auto copied = made.event();
  made.copy("copy", a, a);
  made.add("copy", program::Record{copied});
  made.add("math", program::Wait{copied});
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  executor.run(op::ProgramKind::train, {});
  EXPECT_GT(executor.times().total_s, 0);
  EXPECT_EQ(executor.times().exposed_communication_s, 0);
  EXPECT_EQ(executor.times().feed_wait_s, 0);
}

TEST(Times, a_recorder_gets_the_interval_of_each_instruction) {
  FedSum fed((Rank(0)));
  fed.made.edit().world = 1;
  fed.made.edit().meshes = {{"all", {{"x", 1}}, {Rank(0)}}};
  fed.made.edit().groups = {{"x", MeshId(0), {AxisId(0)}, {Rank(0)}}};
  const program::Bundle bundle = fed.made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  SlowFeeder feeder(true);
  trace::Recorder recorder(op::ProgramKind::train, bundle.programs[0].instructions.size(), 1, 2);
  executor.set_recorder(&recorder);
  for (std::int64_t step = 0; step < 4; ++step)
    executor.run(op::ProgramKind::train, {.step = step}, &feeder);
  ASSERT_EQ(recorder.runs().size(), 2U);
  EXPECT_EQ(recorder.runs()[0].step, 1);
  for (const trace::RecordedRun& run : recorder.runs()) {
    const auto& at = run.instructions;
    for (const trace::Interval& interval : at) {
      EXPECT_GE(interval.begin_ns, run.whole.begin_ns);
      EXPECT_GE(interval.end_ns, interval.begin_ns);
      EXPECT_LE(interval.end_ns, run.whole.end_ns);
    }
    EXPECT_GE(at[0].duration_ns(), 0.5e9 * slept_s) << "the feed";
    EXPECT_GE(at[2].end_ns, at[0].end_ns) << "the wait ends behind what it waits for";
    EXPECT_LE(at[3].end_ns, at[6].begin_ns) << "the copy ends before the sum begins";
  }
}

TEST(Times, recording_a_step_allocates_nothing) {
  Handmade made(op::ProgramKind::train);
  const auto a = made.floats("a", 4);
  for (int i = 0; i < 50; ++i) made.copy("math", a, a);
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  trace::Recorder recorder(op::ProgramKind::train, 50, 1, 3);
  executor.set_recorder(&recorder);
  executor.run(op::ProgramKind::train, {});
  AllocationCounter counter;
  for (std::int64_t step = 1; step < 5; ++step)
    executor.run(op::ProgramKind::train, {.step = step});
  const Allocations allocations = counter.stop();
  EXPECT_TRUE(recorder.is_full());
  EXPECT_EQ(allocations.own, 0) << allocations.first_own;
}

TEST(Times, running_step_by_step_records_nothing) {
  Handmade made(op::ProgramKind::train);
  const auto a = made.floats("a", 4);
  made.copy("math", a, a);
  const program::Bundle bundle = made.bundle();
  CpuBackend backend;
  Executor executor(bundle, backend);
  trace::Recorder recorder(op::ProgramKind::train, 1, 0, 1);
  executor.set_recorder(&recorder);
  executor.run_stepwise(op::ProgramKind::train, {}, nullptr,
                        [](const program::Program&, std::size_t) {});
  EXPECT_TRUE(recorder.runs().empty());
  executor.set_recorder(nullptr);
  executor.run(op::ProgramKind::train, {});
  EXPECT_TRUE(recorder.runs().empty());
}

}  // namespace
}  // namespace fourfold::run
