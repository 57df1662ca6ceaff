// Broken order: faults of events, streams, and of what bytes hold when they are touched.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/examples.h"
#include "verify/faults.h"

namespace fourfold::verify {
namespace {

// --- events, deadlock, race

TEST(VerifyRace, a_dropped_wait_is_a_race) {
  Program program = tiny_train();
  erase_instruction(program, find_instruction(program, "wait"));
  expect_fault(program, "race", find_instruction(program, "embedding"),
               "instruction 0 (feed -> tokens");
}

TEST(VerifyRace, a_feed_over_tokens_still_in_use_is_a_race) {
  Program program = tiny_train();
  erase_instruction(program, find_instruction(program, "wait", 1));
  expect_fault(program, "race", find_instruction(program, "feed", 2), "both touch bytes of tokens");
}

TEST(VerifyRace, overlapping_addresses_race_even_in_different_buffers) {
  Program program = tiny_train();
  buffer_named(program, "labels").offset_bytes = buffer_named(program, "token_loss").offset_bytes;
  erase_instruction(program, find_instruction(program, "wait", 1));
  const std::vector<Fault> faults = verify(program);
  const auto race =
      std::find_if(faults.begin(), faults.end(), [](const Fault& f) { return f.rule == "race"; });
  ASSERT_NE(race, faults.end());
}

TEST(VerifyEvents, a_dropped_record_is_a_fault) {
  Program program = tiny_train();
  erase_instruction(program, find_instruction(program, "record"));
  expect_fault(program, "events", find_instruction(program, "wait"), "event 0 is never recorded");
}

TEST(VerifyEvents, an_event_recorded_twice_is_a_fault) {
  Program program = tiny_train();
  const std::size_t second = find_instruction(program, "record", 1);
  std::get<Record>(program.instructions[second].what).event = EventId(0);
  expect_fault(program, "events", second, "event 0 is recorded before");
}

TEST(VerifyEvents, an_event_that_nobody_records_is_a_fault) {
  Program program = tiny_train();
  ++program.num_events;
  expect_fault(program, "events", std::nullopt, "event 4 is never recorded");
}

TEST(VerifyEvents, a_wait_issued_before_its_record_is_a_fault) {
  Program program = sharded_train();
  const std::size_t gather = find_instruction(program, "all_gather");
  // Stream x has nothing before: it may wait for z without a circle, but is issued too early.
  insert_instruction(program, gather, {StreamId(3), Wait{EventId(0)}});
  expect_fault(program, "events", gather, "issued before instruction");
}

TEST(VerifyDeadlock, two_streams_that_wait_for_each_other_are_a_deadlock) {
  Program program = tiny_train();
  insert_instruction(program, 0, {StreamId(1), Wait{EventId(1)}});
  program.tasks[0].begin = 0;
  expect_fault(program, "deadlock", 0, "which waits for it");
}

TEST(VerifyDeadlock, a_stream_that_waits_for_its_own_future_is_a_deadlock) {
  Program program = tiny_train();
  const std::size_t embedding = find_instruction(program, "embedding");
  insert_instruction(program, embedding, {StreamId(0), Wait{EventId(1)}});
  expect_fault(program, "deadlock", embedding);
}

// --- defined, lost

TEST(VerifyDefined, reading_before_writing_is_a_fault) {
  Program program = tiny_train();
  erase_instruction(program, find_instruction(program, "gelu"));
  expect_fault(program, "defined", find_compute(program, "contract", 0, "a"),
               "a is read before it is written");
}

TEST(VerifyDefined, overlapping_live_buffers_are_a_fault) {
  Program program = tiny_train();
  buffer_named(program, "a_grad").offset_bytes = buffer_named(program, "u").offset_bytes;
  // u is read by gelu_gradient after a_grad has taken its place, which that op does not allow
  // either.
  const std::vector<Fault> faults = verify(program);
  const std::size_t reader = find_instruction(program, "gelu_gradient");
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
    return fault.rule == "defined" && fault.instruction == reader &&
           fault.message.find("bytes of u were overwritten through a_grad") != std::string::npos;
  })) << all(faults);
}

TEST(VerifyDefined, a_clobbered_value_is_a_fault) {
  Program program = tiny_train();
  buffer_named(program, "lse").offset_bytes = buffer_named(program, "rstd").offset_bytes;
  expect_fault(program, "defined", find_instruction(program, "layer_norm_weight_gradient"),
               "bytes of rstd were overwritten through lse by instruction");
}

TEST(VerifyDefined, a_workspace_clobbers_what_lives_there) {
  Program program = tiny_train();
  Buffer workspace{"workspace",           DType::f32, {8}, {},   {}, Region::transient,
                   BufferRole::workspace, 0,          32,  false};
  workspace.offset_bytes = buffer_named(program, "lse").offset_bytes;
  program.buffers.push_back(workspace);
  const std::size_t contract = find_compute(program, "cross_entropy_gradient", 0, "logits");
  compute_at(program, find_instruction(program, "loss_sum")).workspace =
      slice_of(program, "workspace");
  expect_fault(program, "defined", contract, "bytes of lse were overwritten through workspace");
}

TEST(VerifyDefined, a_first_micro_batch_that_accumulates_is_a_fault) {
  Program program = tiny_train();
  const std::size_t contract = find_compute(program, "contract", 2, "g.head");
  compute_at(program, contract).op = op::with_accumulate(compute_at(program, contract).op, true);
  expect_fault(program, "defined", contract, "g.head is read before it is written");
}

TEST(VerifyDefined, an_output_never_written_is_a_fault) {
  Program program = tiny_evaluate();
  buffer_named(program, "logits").role = BufferRole::output;
  EXPECT_EQ(all(verify(program)), "");
  buffer_named(program, "tokens").role = BufferRole::output;
  EXPECT_EQ(all(verify(program)), "");
  program.buffers.push_back({"digest",
                             DType::u64,
                             {1},
                             {},
                             {},
                             Region::transient,
                             BufferRole::output,
                             program.transient_bytes,
                             8,
                             false});
  program.transient_bytes += 64;
  expect_fault(program, "defined", std::nullopt, "output digest is not defined at the end");
}

TEST(VerifyDefined, an_output_clobbered_before_the_end_is_a_fault) {
  Program program = tiny_train();
  buffer_named(program, "d").role = BufferRole::output;
  expect_fault(program, "defined", std::nullopt, "output d is not defined at the end");
}

TEST(VerifyDefined, an_init_that_leaves_a_moment_undefined_is_a_fault) {
  Program program = tiny_init();
  erase_instruction(program, find_compute(program, "fill", 0, "m.head"));
  expect_fault(program, "defined", std::nullopt, "moment m.head is not defined at the end");
}

TEST(VerifyDefined, the_result_block_has_nothing_at_the_start) {
  Program program = tiny_train();
  const std::size_t loss = find_instruction(program, "loss_sum");
  compute_at(program, loss).op = op::LossSum{true};
  expect_fault(program, "defined", loss, "result is read before it is written");
}

TEST(VerifyLost, a_micro_batch_that_overwrites_the_gradient_is_a_fault) {
  Program program = tiny_train();
  const std::size_t first = find_compute(program, "contract", 2, "g.head");
  std::size_t second = first + 1;
  while (program.instructions[second].what.index() != 0 ||
         !(compute_at(program, second).slices == compute_at(program, first).slices))
    ++second;
  compute_at(program, second).op = op::with_accumulate(compute_at(program, second).op, false);
  expect_fault(program, "lost", second, "it overwrites what instruction");
}

}  // namespace
}  // namespace fourfold::verify
