// Broken ids, shapes, addresses and operands: faults that one instruction or buffer shows by
// itself.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/examples.h"
#include "verify/faults.h"

namespace fourfold::verify {
namespace {

// --- bounds, names, tasks

TEST(VerifyBounds, a_slice_beyond_its_buffer_is_a_fault) {
  Program program = tiny_train();
  const std::size_t gelu = find_instruction(program, "gelu");
  compute_at(program, gelu).slices[0].offset_bytes = 64;
  expect_fault(program, "bounds", gelu, "does not lie within the 512 bytes of u");
}

TEST(VerifyBounds, a_slice_that_cuts_an_element_is_a_fault) {
  Program program = tiny_train();
  const std::size_t gelu = find_instruction(program, "gelu");
  compute_at(program, gelu).slices[0].row_bytes -= 2;
  expect_fault(program, "bounds", gelu, "between elements");
}

TEST(VerifyBounds, rows_closer_than_they_are_long_are_a_fault) {
  Program program = tiny_train();
  const std::size_t gelu = find_instruction(program, "gelu");
  compute_at(program, gelu).slices[0] = {*program.find_buffer("u"), 0, 2, 64, 32};
  expect_fault(program, "bounds", gelu, "are no slice of u");
}

TEST(VerifyBounds, a_buffer_that_is_not_aligned_is_a_fault) {
  Program program = tiny_train();
  buffer_named(program, "x").offset_bytes += 4;
  expect_fault(program, "bounds", std::nullopt, "buffer x: its offset 132 is not a multiple of 64");
}

TEST(VerifyBounds, a_buffer_beyond_its_region_is_a_fault) {
  Program program = tiny_train();
  program.transient_bytes -= 64;
  expect_fault(program, "bounds", std::nullopt, "buffer g.head: it ends at");
}

TEST(VerifyBounds, a_size_that_is_not_that_of_the_shape_is_a_fault) {
  Program program = tiny_train();
  buffer_named(program, "x").global = {2, 4, 9};
  expect_fault(program, "bounds", std::nullopt,
               "buffer x: it has 256 bytes, its shape [2, 4, 9] of f32 288");
}

TEST(VerifyBounds, cuts_that_do_not_nest_are_a_fault) {
  Program program = sharded_train();
  // 15 rows: 8 on each x, of which z would have to take 4 twice; a stride says otherwise.
  buffer_named(program, "down").global[0] = 15;
  buffer_named(program, "down").sharding.dims[0][1].stride = 3;
  expect_fault(program, "bounds", std::nullopt, "the cuts of dim 0 do not nest in whole blocks");
}

TEST(VerifyBounds, an_axis_that_cuts_two_dims_is_a_fault) {
  Program program = sharded_train();
  buffer_named(program, "h").sharding.dims[2] = buffer_named(program, "h").sharding.dims[0];
  expect_fault(program, "bounds", std::nullopt, "used twice");
}

TEST(VerifyBounds, a_stream_that_does_not_exist_is_a_fault) {
  Program program = tiny_train();
  program.instructions[3].stream = StreamId(7);
  expect_fault(program, "bounds", 3, "stream 7 does not exist");
}

TEST(VerifyBounds, a_buffer_that_does_not_exist_is_a_fault) {
  Program program = tiny_train();
  const std::size_t gelu = find_instruction(program, "gelu");
  compute_at(program, gelu).slices[0].buffer = BufferId(1000);
  expect_fault(program, "bounds", gelu, "buffer 1000 does not exist");
}

TEST(VerifyBounds, an_event_out_of_range_is_a_fault) {
  Program program = tiny_train();
  const std::size_t wait = find_instruction(program, "wait");
  std::get<Wait>(program.instructions[wait].what).event = EventId(99);
  expect_fault(program, "bounds", wait, "event 99 of 4");
}

TEST(VerifyBounds, a_mesh_with_one_rank_twice_is_a_fault) {
  Program program = sharded_train();
  program.meshes[0].ranks = {Rank(1), Rank(1), Rank(2), Rank(3)};
  expect_fault(program, "bounds", std::nullopt, "rank 1 stands there twice");
}

TEST(VerifyBounds, a_message_to_oneself_is_a_fault) {
  Program program = sharded_train();
  const Send send{program.rank, 0, slice_of(program, "p")};
  insert_instruction(program, program.instructions.size() - 1, {StreamId(0), send});
  expect_fault(program, "bounds", program.instructions.size() - 2, "peer 3 of 4");
}

TEST(VerifyNames, two_buffers_of_one_name_are_a_fault) {
  Program program = tiny_train();
  buffer_named(program, "x").name = "h";
  expect_fault(program, "names", std::nullopt, "h is the name of more than one buffer");
}

TEST(VerifyTasks, a_gap_between_tasks_is_a_fault) {
  Program program = tiny_train();
  ++program.tasks[1].begin;
  expect_fault(program, "tasks", std::nullopt, "task 1 holds");
}

TEST(VerifyTasks, instructions_behind_the_last_task_are_a_fault) {
  Program program = tiny_train();
  --program.tasks.back().end;
  expect_fault(program, "tasks", std::nullopt, "tasks end at");
}

TEST(VerifyPersistentOverlap, two_parameters_on_one_address_are_a_fault) {
  Program program = tiny_train();
  buffer_named(program, "up.bias").offset_bytes = buffer_named(program, "head").offset_bytes;
  expect_fault(program, "persistent-overlap", std::nullopt, "share persistent bytes");
}

TEST(VerifyPersistentOverlap, the_second_copy_of_a_block_counts) {
  Program program = tiny_train();
  buffer_named(program, "up.bias").offset_bytes = buffer_named(program, "result").offset_bytes + 64;
  expect_fault(program, "persistent-overlap", std::nullopt, "result and up.bias");
}

// --- operands, implementation, alias, read-only

TEST(VerifyOperands, another_dtype_than_the_buffers_is_a_fault) {
  Program program = tiny_train();
  const std::size_t gelu = find_instruction(program, "gelu");
  compute_at(program, gelu).dtype = DType::f64;
  expect_fault(program, "operands", gelu, "operand x is f64, but u holds f32");
}

TEST(VerifyOperands, a_gradient_a_weight_or_a_moment_in_bf16_is_a_fault) {
  for (const BufferRole role : {BufferRole::gradient, BufferRole::parameter, BufferRole::moment}) {
    Program program = tiny_train();
    const auto buffer = std::find_if(program.buffers.begin(), program.buffers.end(),
                                     [&](const Buffer& b) { return b.role == role; });
    ASSERT_NE(buffer, program.buffers.end());
    buffer->dtype = DType::bf16;
    buffer->size_bytes /= 2;
    for (Instruction& instruction : program.instructions)
      for_each_slice(instruction, [&](Slice& slice) {
        if (program.buffer(slice.buffer).name == buffer->name) slice.row_bytes /= 2;
      });
    expect_fault(program, "operands", std::nullopt,
                 format("the {} {} holds bf16, expected the type of its sums, f32", to_string(role),
                        buffer->name));
  }
}

TEST(VerifyOperands, a_field_of_another_dtype_is_a_fault) {
  Program program = tiny_train();
  const std::size_t control = find_instruction(program, "update_control");
  auto& slices = compute_at(program, control).slices;
  std::swap(slices[0], slices[1]);
  expect_fault(program, "operands", control, "operand squared_norm is f64, but result holds i64");
}

TEST(VerifyOperands, an_output_of_another_shape_is_a_fault) {
  Program program = tiny_train();
  const std::size_t contract = find_instruction(program, "contract");
  compute_at(program, contract).slices[2] = slice_of(program, "d");
  expect_fault(program, "operands", contract,
               "output out in d has shape [2, 4, 8], the op gives [2, 4, 16]");
}

TEST(VerifyOperands, reads_that_do_not_fit_are_a_fault) {
  Program program = tiny_train();
  const std::size_t contract = find_instruction(program, "contract");
  compute_at(program, contract).slices[1] = slice_of(program, "down.weight");
  expect_fault(program, "operands", contract, "contracted dims");
}

TEST(VerifyOperands, a_read_that_only_the_factors_constrain_is_checked) {
  Program program = tiny_train();
  const std::size_t gradient = find_instruction(program, "layer_norm_gradient");
  compute_at(program, gradient).slices[1] = slice_of(program, "up.bias");
  expect_fault(program, "operands", gradient, "operand gain has shape [16], expected 8");
}

TEST(VerifyOperands, a_missing_operand_is_a_fault) {
  Program program = tiny_train();
  const std::size_t gelu = find_instruction(program, "gelu");
  compute_at(program, gelu).slices.pop_back();
  expect_fault(program, "operands", gelu, "1 operands, expected 2");
}

TEST(VerifyOperands, a_kernel_sees_only_dense_slices) {
  Program program = tiny_train();
  const std::size_t gelu = find_instruction(program, "gelu");
  compute_at(program, gelu).slices[0] = {*program.find_buffer("u"), 0, 8, 64, 64};
  expect_fault(program, "operands", gelu, "operand x is dense");
}

TEST(VerifyImplementation, a_compute_that_nobody_computes_is_a_fault) {
  Program program = tiny_train();
  const std::size_t gelu = find_instruction(program, "gelu");
  compute_at(program, gelu).implementation.clear();
  expect_fault(program, "implementation", gelu);
}

TEST(VerifyAlias, an_op_that_may_not_work_in_place_is_a_fault) {
  Program program = tiny_train();
  const std::size_t norm = find_instruction(program, "layer_norm");
  compute_at(program, norm).slices[3] = slice_of(program, "x");
  expect_fault(program, "alias", norm, "x shares bytes with x");
}

TEST(VerifyAlias, another_read_than_the_allowed_one_may_not_be_taken_over) {
  Program program = tiny_train();
  const std::size_t gradient = find_instruction(program, "gelu_gradient");
  compute_at(program, gradient).slices[2] = slice_of(program, "u");
  expect_fault(program, "alias", gradient, "u shares bytes with u");
}

TEST(VerifyAlias, taking_over_part_of_a_read_is_a_fault) {
  Program program = tiny_train();
  buffer_named(program, "a").offset_bytes = buffer_named(program, "u").offset_bytes + 64;
  expect_fault(program, "alias", find_instruction(program, "gelu"), "a takes over only part of u");
}

TEST(VerifyAlias, a_workspace_over_an_operand_is_a_fault) {
  Program program = tiny_train();
  const std::size_t contract = find_instruction(program, "contract");
  compute_at(program, contract).workspace = slice_of(program, "h");
  expect_fault(program, "alias", contract, "h shares bytes with h");
}

TEST(VerifyReadOnly, writing_the_step_block_is_a_fault) {
  Program program = tiny_train();
  const std::size_t vote = find_instruction(program, "vote");
  auto& slices = compute_at(program, vote).slices;
  slices[6] = slices[0];
  slices[0] = slices[3];
  expect_fault(program, "read-only", vote, "step is a step_block");
}

TEST(VerifyReadOnly, writing_a_parameter_in_evaluate_is_a_fault) {
  Program program = tiny_evaluate();
  const std::size_t add = find_instruction(program, "add");
  insert_instruction(
      program, add,
      {StreamId(0),
       Compute{op::Fill{0, {8, 16}}, DType::f32, {slice_of(program, "head")}, {}, "reference"}});
  expect_fault(program, "read-only", add, "head is a parameter");
}

TEST(VerifyReadOnly, an_op_other_than_the_update_may_not_write_a_moment) {
  Program program = tiny_train();
  const std::size_t add = find_instruction(program, "add");
  insert_instruction(
      program, add,
      {StreamId(0),
       Compute{op::Fill{0, {8, 16}}, DType::f32, {slice_of(program, "m.head")}, {}, "reference"}});
  expect_fault(program, "read-only", add, "m.head is a moment");
}

}  // namespace
}  // namespace fourfold::verify
