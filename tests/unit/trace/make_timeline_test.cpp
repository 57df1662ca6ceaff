// From programs and recorded times to a timeline.
#include "trace/make_timeline.h"

#include <gtest/gtest.h>

#include "trace/describe_work.h"
#include "unit/run/handmade.h"

namespace fourfold::trace {
namespace {

using run::Handmade;

/// Rank `rank` of two: a feed, an all-reduce of what a product wrote, a copy.
program::Program two_streams(std::size_t rank) {
  Handmade made(op::ProgramKind::train);
  program::Program& program = made.edit();
  program.rank = Rank(rank);
  program.world = 2;
  program.meshes = {{"all", {{"x", 2}}, {Rank(0), Rank(1)}}};
  program.groups = {{"x.weights", MeshId(0), {AxisId(0)}, {Rank(0), Rank(1)}}};
  const auto a = made.buffer("a", DType::f32, {2, 3}, program::Region::transient),
             b = made.buffer("b", DType::f32, {3, 4}, program::Region::transient),
             c = made.buffer("c", DType::f32, {2, 4}, program::Region::transient);
  const auto done = made.event(), reduced = made.event();
  made.compute(op::Contract{}, {made.whole(a), made.whole(b), made.whole(c)});
  made.add("math", program::Record{done});
  made.add("x", program::Wait{done});
  made.add("x", program::AllReduce{program::GroupId(0), Reduction::sum, {made.whole(c)}});
  made.add("x", program::AllReduce{program::GroupId(0), Reduction::sum, {made.whole(c)}});
  made.add("x", program::Record{reduced});
  made.add("math", program::Wait{reduced});
  made.copy("math", c, c);
  program.tasks = {{program::TaskKind::forward, 0, 0, 2}, {program::TaskKind::update, {}, 2, 8}};
  return program;
}

TEST(DescribeWork, every_instruction_but_records_is_told) {
  const std::vector<Work> works = describe_work(two_streams(0));
  ASSERT_EQ(works.size(), 6U);
  EXPECT_EQ(works[0].work_class, WorkClass::gemm);
  EXPECT_EQ(works[0].flops, 2.0 * 2 * 3 * 4);
  EXPECT_EQ(works[0].bytes, 4.0 * (6 + 12 + 8));
  EXPECT_EQ(works[0].task, "forward(0)");
  EXPECT_EQ(works[0].implementation, "reference");
  EXPECT_EQ(works[1].work_class, WorkClass::wait);
  EXPECT_EQ(works[1].awaited, "math");
  EXPECT_EQ(works[1].text, works[0].text + " on math");
  EXPECT_EQ(works[1].task, "update");
  EXPECT_EQ(works[2].work_class, WorkClass::communication);
  EXPECT_EQ(works[2].axis, "x");
  EXPECT_EQ(works[2].bytes, 32);
  EXPECT_EQ(works[2].text, "all_reduce -> &c");
  EXPECT_EQ(works[4].awaited, "x");
  EXPECT_EQ(works[5].work_class, WorkClass::copy);
  EXPECT_EQ(works[5].instruction, 7U);
}

TEST(DescribeWork, words_of_kinds_leave_out_what_tells_works_apart_and_nothing_else) {
  std::vector<Work> all = describe_work(two_streams(0));
  for (Work& work : all) {
    EXPECT_NE(work.text, "");
    work.text = work.task = work.meeting = "";
  }
  EXPECT_EQ(describe_work(two_streams(0), Words::of_kinds), all);
}

TEST(DescribeWork, a_collective_and_the_wait_for_it_have_the_class_of_their_traffic) {
  const std::vector<Work> works = describe_work(two_streams(0));
  EXPECT_EQ(works[2].traffic, "x.weights");
  EXPECT_EQ(works[4].traffic, "x.weights") << "math waits for it";
  EXPECT_EQ(works[0].traffic, "");
  EXPECT_EQ(works[1].traffic, "") << "a wait for what is computed";
}

TEST(DescribeWork, a_message_has_the_class_of_its_stream) {
  program::Program program = two_streams(0);
  const program::Slice all = program.whole(program::BufferId(std::size_t{2}));
  for (program::Instruction& instruction : program.instructions)
    if (std::holds_alternative<program::AllReduce>(instruction.what))
      instruction.what = program::Send{Rank(1), 7, all};
  EXPECT_EQ(describe_work(program)[2].traffic, "x");
  EXPECT_EQ(describe_work(program)[4].traffic, "x");
}

TEST(DescribeWork, a_group_of_one_rank_exchanges_nothing) {
  program::Program program = two_streams(0);
  program.groups[0].members = {Rank(0)};
  for (const Work& work : describe_work(program)) EXPECT_EQ(work.traffic, "") << work.text;
}

TEST(DescribeWork, members_of_a_collective_and_no_others_share_its_meeting) {
  const std::vector<Work> first = describe_work(two_streams(0)),
                          second = describe_work(two_streams(1));
  EXPECT_EQ(first[2].meeting, second[2].meeting);
  EXPECT_EQ(first[3].meeting, second[3].meeting);
  EXPECT_NE(first[2].meeting, first[3].meeting);
  EXPECT_EQ(first[0].meeting, "");
}

TEST(DescribeWork, what_is_computed_in_the_update_counts_as_the_optimizer) {
  Handmade made(op::ProgramKind::train);
  const auto a = made.floats("a", 4), b = made.floats("b", 4), c = made.floats("c", 4);
  made.compute(op::Add{}, {made.whole(a), made.whole(b), made.whole(c)});
  made.edit().tasks = {{program::TaskKind::forward, 0, 0, 1}};
  EXPECT_EQ(describe_work(made.program())[0].work_class, WorkClass::elementwise);
  made.edit().tasks[0].kind = program::TaskKind::update;
  EXPECT_EQ(describe_work(made.program())[0].work_class, WorkClass::optimizer);
}

TEST(MakeTimeline, times_of_all_ranks_stand_on_one_clock_from_zero) {
  const auto recording = [](std::int64_t shift_ns, std::int64_t offset_ns) {
    RecordedRun run{4, {1000 + shift_ns, 2000 + shift_ns}, std::vector<Interval>(8)};
    for (std::size_t i = 0; i < 8; ++i) {
      const auto at_ns = 1000 + shift_ns + 10 * static_cast<std::int64_t>(i);
      run.instructions[i] = {at_ns, at_ns + 5};
    }
    return Recording{"host", {run}, offset_ns};
  };
  // Rank 1's clock shows 500 ns less and it begins 20 ns later.
  const Timeline timeline = make_timeline(
      {recording(0, 0), recording(-480, 500)}, [](Rank rank) { return two_streams(rank.index()); },
      [](const program::Program& p) { return "rank " + std::to_string(p.rank.index()); });
  ASSERT_EQ(timeline.ranks.size(), 2U);
  EXPECT_EQ(timeline.program, op::ProgramKind::train);
  EXPECT_EQ(timeline.ranks[1].place, "rank 1");
  EXPECT_EQ(timeline.ranks[0].steps[0].number, 5);
  EXPECT_EQ(timeline.ranks[0].steps[0].whole, (Interval{0, 1000}));
  EXPECT_EQ(timeline.ranks[1].steps[0].whole, (Interval{20, 1020}));
  ASSERT_EQ(timeline.ranks[1].steps[0].spans.size(), 6U);
  EXPECT_EQ(timeline.ranks[1].steps[0].spans[1].when, (Interval{40, 45})) << "instruction 2";
}

TEST(Recorder, records_so_many_runs_of_its_program_behind_those_it_skips) {
  Recorder recorder(op::ProgramKind::train, 3, 1, 2);
  const auto run = [&](op::ProgramKind program, std::int64_t step) {
    const std::span<Interval> room = recorder.begin_run(program, step);
    if (!room.empty()) room[2] = {step, step + 1};
    recorder.end_run({10 * step, 10 * step + 9});
    return room.size();
  };
  EXPECT_EQ(run(op::ProgramKind::init, 0), 0U);
  EXPECT_EQ(run(op::ProgramKind::train, 7), 0U) << "warms up";
  EXPECT_EQ(run(op::ProgramKind::train, 8), 3U);
  EXPECT_EQ(run(op::ProgramKind::evaluate, 8), 0U);
  recorder.begin_run(op::ProgramKind::train, 9);  // ends in a fault
  EXPECT_FALSE(recorder.is_full());
  EXPECT_EQ(run(op::ProgramKind::train, 10), 3U);
  EXPECT_TRUE(recorder.is_full());
  EXPECT_EQ(run(op::ProgramKind::train, 11), 0U);
  ASSERT_EQ(recorder.runs().size(), 2U);
  EXPECT_EQ(recorder.runs()[0].step, 8);
  EXPECT_EQ(recorder.runs()[1].step, 10);
  EXPECT_EQ(recorder.runs()[1].whole, (Interval{100, 109}));
  EXPECT_EQ(recorder.runs()[1].instructions[2], (Interval{10, 11}));
}

}  // namespace
}  // namespace fourfold::trace
