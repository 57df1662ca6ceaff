// What to_text writes and parse_program reads back: golden texts, folding, every kind of
// instruction.
#include "program/text.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/format.h"
#include "program/builder.h"
#include "program/examples.h"
#include "program/round_trip.h"

namespace fourfold::program {
namespace {

bool has_line(const std::string& text, const std::string& line) {
  return text.find(format("\n{}\n", line)) != std::string::npos;
}

/// Compares with tests/program/golden/NAME; FOURFOLD_UPDATE_GOLDEN=1 rewrites the file instead.
void expect_golden(const std::string& text, const std::string& file_name) {
  const std::string path = format("{}/tests/program/golden/{}", FOURFOLD_SOURCE_DIR, file_name);
  if (std::getenv("FOURFOLD_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(text, golden.str()) << "FOURFOLD_UPDATE_GOLDEN=1 rewrites " << path;
}

TEST(Text, the_train_program_prints_as_its_golden_text) {
  expect_golden(to_text(tiny_train(3)), "tiny_train.txt");
}
TEST(Text, the_sharded_program_prints_as_its_golden_text) {
  expect_golden(to_text(sharded_train()), "sharded_train.txt");
}
TEST(Text, the_bundle_prints_as_its_golden_text) {
  expect_golden(to_text(tiny_bundle()), "tiny_bundle.txt");
}

TEST(Text, hand_built_programs_read_back_equal) {
  for (const Program& program :
       {tiny_train(1), tiny_train(4), tiny_init(), tiny_evaluate(), sharded_train()})
    expect_round_trip(program);
}

TEST(Text, the_ranks_of_a_job_fold_where_their_peers_move_alike) {
  Job job{{tiny_bundle(), tiny_bundle()}, {}};
  for (std::size_t rank = 0; rank < 4; ++rank) job.ranks.push_back({0, {Rank(4 + rank), Rank(9)}});
  for (std::size_t rank = 4; rank < 8; ++rank) job.ranks.push_back({1, {Rank(rank - 4)}});
  for (std::size_t rank = 8; rank < 12; ++rank) job.ranks.push_back({1, {Rank(7)}});
  for (std::size_t rank = 12; rank < 1024; ++rank) job.ranks.push_back({0, {}});
  const std::string text = to_text(job);
  EXPECT_TRUE(
      text.starts_with("job text version 1\n"
                       "job of 1024 ranks in 2 classes\n"
                       "ranks 0 class 0 peers 4 9\n"
                       "ranks 1 class 0 peers 5 9\n"
                       "ranks 2 class 0 peers 6 9\n"
                       "ranks 3 class 0 peers 7 9\n"
                       "ranks 4..7 class 1 peers 0 by 1\n"
                       "ranks 8..11 class 1 peers 7 by 0\n"
                       "ranks 12..1023 class 0\n"))
      << text.substr(0, 400);
  const Job read = parse_job(text, "job.txt");
  EXPECT_EQ(read, job);
  EXPECT_EQ(to_text(read), text);
}

TEST(Text, a_bundle_reads_back_equal) {
  const Bundle bundle = tiny_bundle();
  const std::string text = to_text(bundle);
  EXPECT_TRUE(parse_bundle(text, "test.txt") == bundle);
  EXPECT_EQ(to_text(parse_bundle(text, "test.txt")), text);
}

TEST(Text, an_empty_program_reads_back_equal) {
  expect_round_trip(Program{});
}

// --- folding

TEST(Text, equal_tasks_fold_with_the_shift_of_their_events) {
  const std::string text = to_text(tiny_train(4));
  EXPECT_TRUE(has_line(text, "task forward(2) = forward(1), events +2"));
  EXPECT_TRUE(has_line(text, "task backward(3) = backward(1), events +4"));
  EXPECT_FALSE(has_line(text, "task forward(1) = forward(0)"));
}

TEST(Text, a_task_that_waits_for_the_same_earlier_event_folds_its_own_events_only) {
  Program program = tiny_train(4);
  for (const std::size_t task : {std::size_t{2}, std::size_t{4}, std::size_t{6}})
    insert_instruction(program, program.tasks[task].begin + 1, {StreamId(0), Wait{EventId(0)}});
  const std::string text = to_text(program);
  // The first line, a wait for the preceding task, moves with the task but is recorded outside of
  // it.
  EXPECT_EQ(text.find("forward(2) = forward(1)"), std::string::npos);
  for (const std::size_t task : {std::size_t{6}, std::size_t{4}, std::size_t{2}})
    erase_instruction(program, program.tasks[task].begin);
  EXPECT_TRUE(has_line(to_text(program), "task forward(2) = forward(1), own events +2"));
  expect_round_trip(program);
}

TEST(Text, a_task_that_differs_in_one_byte_is_printed) {
  Program program = tiny_train(4);
  const std::size_t last = program.tasks[6].begin + 2;
  std::get<Feed>(program.instructions[last].what).micro = 0;
  EXPECT_EQ(to_text(program).find("task forward(3) ="), std::string::npos);
  expect_round_trip(program);
}

TEST(Text, a_window_and_a_feed_of_the_tasks_micro_batch_print_as_the_word_micro) {
  Program program = tiny_train(2);
  const std::size_t gelu = find_instruction(program, "gelu", 1);
  auto& compute = std::get<Compute>(program.instructions[gelu].what);
  compute.op = op::Dropout{random_stream("x"), 0.1, {1, 8, 2}};
  compute.slices.insert(compute.slices.begin() + 1, 2, compute.slices[0]);
  const std::string text = to_text(program);
  EXPECT_NE(text.find("rate 0.1 micro micro samples 8 first 2 by reference"), std::string::npos)
      << text;
  EXPECT_NE(text.find("input tokens micro micro"), std::string::npos);
  expect_round_trip(program);
}

TEST(Text, a_task_with_a_label_used_twice_folds_only_into_the_latest) {
  Program program = tiny_train(4);
  program.tasks[4].micro = 1;
  program.tasks[5].micro = 1;
  expect_round_trip(program);
}

// --- kinds of instructions

TEST(Text, every_kind_of_instruction_reads_back_equal) {
  const Program program = every_kind();
  expect_round_trip(program);
  const std::string text = to_text(program);
  EXPECT_NE(text.find("a[4:8]"), std::string::npos);
  EXPECT_NE(text.find("a[0:2x8/32]"), std::string::npos);
  EXPECT_NE(text.find("-> step.lr"), std::string::npos);
  EXPECT_NE(text.find("on right"), std::string::npos);
  EXPECT_NE(text.find("partial sum(w)"), std::string::npos);
  EXPECT_NE(text.find("ranks 4..5 7 6"), std::string::npos);
}

TEST(Text, a_buffer_named_like_a_field_is_not_taken_for_it) {
  Program program = tiny_train(1);
  buffer_named(program, "x").name = "step.lr";
  expect_round_trip(program);
  EXPECT_NE(to_text(program).find("step[16:8]"), std::string::npos);
}

TEST(Text, a_short_text_names_operands_and_unknown_ids) {
  Program program = tiny_train(1);
  const std::size_t gelu = find_instruction(program, "gelu");
  EXPECT_EQ(short_text(program, program.instructions[gelu]), "gelu u -> a");
  std::get<Compute>(program.instructions[gelu].what).slices[0].buffer = BufferId(99);
  EXPECT_EQ(short_text(program, program.instructions[gelu]), "gelu ?99[0:1x512/0] -> a");
  EXPECT_EQ(
      short_text(program, {StreamId(0), AllReduce{GroupId(3), op::Reduction::sum, {Slice{}}}}),
      "all_reduce -> &step[0:0] group ?3 reduction sum");
  const Slice field = program.whole(BufferId(program.buffers.size() - 1));
  const std::string& last = program.buffers.back().name;
  EXPECT_EQ(short_text(program, {StreamId(0), AllGather{GroupId(3), Slices(9, field), {field}}}),
            format("all_gather {0} and 8 more -> {0} group ?3", last));
  EXPECT_EQ(short_text(Task{TaskKind::forward, 2, 0, 0}), "forward(2)");
  EXPECT_EQ(short_text(Task{TaskKind::update, std::nullopt, 0, 0}), "update");
}

TEST(Text, what_the_form_cannot_carry_is_an_internal_error) {
  Program name = tiny_train(1);
  name.buffers[0].name = "two words";
  EXPECT_THROW(to_text(name), InternalError);
  Program twice = tiny_train(1);
  twice.buffers[1].name = twice.buffers[0].name;
  EXPECT_THROW(to_text(twice), InternalError);
  Program gap = tiny_train(1);
  ++gap.tasks[1].begin;
  EXPECT_THROW(to_text(gap), InternalError);
  Program dims = tiny_train(1);
  dims.buffers[5].sharding.dims.resize(dims.buffers[5].global.rank());
  EXPECT_THROW(to_text(dims), InternalError);
}

}  // namespace
}  // namespace fourfold::program
