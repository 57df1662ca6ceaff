// Blocked buffers, padding, and what depends on coordinates: sound programs, then broken ones.
#include <gtest/gtest.h>

#include "program/jobs.h"
#include "verify/faults.h"

namespace fourfold::verify {
namespace {

constexpr Kind activation{BufferRole::activation, DType::f32};
constexpr Kind output{BufferRole::output, DType::f32};

/// Rank 2 of 4 on one axis.
Builder line() {
  const Mesh mesh{"main", {{"y", 4}}, {Rank(0), Rank(1), Rank(2), Rank(3)}};
  Builder b(op::ProgramKind::train, Rank(2), mesh, {"math", "y"});
  b.serialize();
  b.group({"y"});
  return b;
}

/// `columns` of two rows, summed over y into blocks, then brought back.
Program round_trip(std::int64_t columns) {
  Builder b = line();
  const std::int64_t part = (columns + 3) / 4;
  b.buffer("terms", {2, columns}, activation);
  b.blocked("packed", {2, columns}, activation, {}, 1, "y");
  b.buffer("block", {2, columns}, activation, {"", "y"});
  b.blocked("gathered", {2, columns}, activation, {}, 1, "y");
  b.buffer("all", {2, columns}, output);
  b.task(TaskKind::forward);
  b.op("math", op::Fill{0, {2, columns}}, {"terms"});  // zero is a term of any sum
  b.pack("math", "terms", "packed");
  b.reduce_scatter("y", "packed", "block");
  b.op("math", op::Gelu{}, {"block", "block"});
  b.all_gather("y", "block", "gathered");
  b.unpack("math", "gathered", "all");
  EXPECT_EQ(b.local("block", 1), part);
  return b.finish();
}

TEST(VerifyLayout, a_scatter_and_a_gather_through_blocked_buffers_are_sound) {
  EXPECT_EQ(all(verify(round_trip(8))), "");
}
TEST(VerifyLayout, the_last_blocks_may_be_padded) {
  EXPECT_EQ(all(verify(round_trip(10))), "");
  EXPECT_EQ(all(verify(round_trip(7))), "");
}

/// A share of seven columns, taken into padding, and brought back.
Program share_of(std::int64_t rank) {
  Builder b = line();
  b.buffer("whole", {2, 7}, activation);
  b.blocked("packed", {2, 7}, activation, {}, 1, "y");
  b.buffer("block", {2, 7}, activation, {"", "y"});
  b.blocked("gathered", {2, 7}, activation, {}, 1, "y");
  b.buffer("all", {2, 7}, output);
  b.task(TaskKind::forward);
  b.op("math", op::Fill{1, {2, 7}}, {"whole"});
  b.pack("math", "whole", "packed");
  b.add("math", Copy{{BufferId(1), rank * 16, 1, 16, 0}, b.slice("block")});
  b.all_gather("y", "block", "gathered");
  b.unpack("math", "gathered", "all");
  return b.finish();
}

TEST(VerifyLayout, a_copy_of_this_ranks_share_of_a_blocked_buffer_is_sound) {
  EXPECT_EQ(all(verify(share_of(2))), "");
}
TEST(VerifyLayout, a_copy_of_another_ranks_share_is_a_fault) {
  const Program program = share_of(1);
  expect_fault(program, "layout", find_instruction(program, "copy"),
               "packed and block have different orders in memory");
}

TEST(VerifyLayout, a_pack_left_out_is_a_fault) {
  Program program = round_trip(8);
  const std::size_t scatter = find_instruction(program, "reduce_scatter");
  std::get<ReduceScatter>(program.instructions[scatter].what).from = {slice_of(program, "terms")};
  expect_fault(program, "layout", scatter, "equal parts of terms are not blocks of its dim 1");
}

TEST(VerifyLayout, an_unpack_left_out_is_a_fault) {
  Program program = round_trip(8);
  const std::size_t unpack = find_instruction(program, "unpack");
  program.instructions[unpack].what = Copy{slice_of(program, "gathered"), slice_of(program, "all")};
  expect_fault(program, "layout", unpack, "gathered and all have different orders in memory");
}

TEST(VerifyLayout, an_op_on_a_blocked_buffer_is_a_fault) {
  Program program = round_trip(8);
  const std::size_t gelu = find_instruction(program, "gelu");
  compute_at(program, gelu).slices = {slice_of(program, "packed"), slice_of(program, "packed")};
  expect_fault(program, "layout", gelu, "packed is blocked, expected a plain one");
}

TEST(VerifyLayout, a_pack_of_a_blocked_buffer_is_a_fault) {
  Program program = round_trip(8);
  const std::size_t pack = find_instruction(program, "pack");
  std::swap(std::get<Pack>(program.instructions[pack].what).from,
            std::get<Pack>(program.instructions[pack].what).to);
  const std::vector<Fault> faults = verify(program);
  EXPECT_NE(all(faults).find("layout: train: forward: instruction 1"), std::string::npos)
      << all(faults);
}

TEST(VerifyLayout, an_unpack_of_a_plain_buffer_is_a_fault) {
  Program program = round_trip(8);
  const std::size_t unpack = find_instruction(program, "unpack");
  buffer_named(program, "gathered").blocked.reset();
  const std::vector<Fault> faults = verify(program);
  EXPECT_NE(all(faults).find(format("instruction {} (unpack", unpack)), std::string::npos);
  EXPECT_NE(all(faults).find("gathered is plain, expected one that is blocked"), std::string::npos)
      << all(faults);
}

TEST(VerifyLayout, blocks_of_another_dim_are_a_fault) {
  Program program = round_trip(8);
  Buffer& packed = buffer_named(program, "packed");
  packed.global = {4, 8};
  for (const std::string_view name : {"terms", "block", "gathered", "all"})
    buffer_named(program, name).global = {4, 8};
  for (Buffer& buffer : program.buffers) {
    buffer.size_bytes *= 2;
    buffer.offset_bytes *= 2;
  }
  program.transient_bytes *= 2;
  for (Instruction& instruction : program.instructions)
    for_each_slice(instruction, [](Slice& slice) { slice.row_bytes *= 2; });
  compute_at(program, 0).op = op::Fill{0, {4, 8}};
  EXPECT_EQ(all(verify(program)), "");
  buffer_named(program, "packed").blocked = Blocked{0, AxisId(0), 1};
  expect_fault(program, "layout", find_instruction(program, "reduce_scatter"),
               "packed is blocked in dim 0 along y by 1, expected dim 1 along y by 2");
}

TEST(VerifyLayout, too_little_room_for_the_blocks_is_a_fault) {
  Program program = round_trip(10);
  buffer_named(program, "packed").blocked->share = 2;
  expect_fault(program, "bounds", std::nullopt,
               "buffer packed: 4 parts of 2 do not hold the 10 of dim 1");
}

TEST(VerifyLayout, a_blocked_parameter_or_output_is_a_fault) {
  Program program = round_trip(8);
  buffer_named(program, "packed").role = BufferRole::output;
  expect_fault(program, "layout", std::nullopt, "packed is a transient output");
}

TEST(VerifyLayout, a_reduction_of_part_of_a_blocked_buffer_is_a_fault) {
  Program program = round_trip(8);
  const std::size_t scatter = find_instruction(program, "reduce_scatter");
  Slice part = slice_of(program, "packed");
  EXPECT_EQ(part.row_bytes, 64);
  insert_instruction(program, scatter,
                     {StreamId(1), AllReduce{GroupId(0), op::Reduction::sum, {part}}});
  EXPECT_EQ(all(verify(program)), "");  // all of it, still zero: any layout will do
  std::get<AllReduce>(program.instructions[scatter].what).data[0].row_bytes = 32;
  expect_fault(program, "layout", scatter, "it takes part of packed, which is blocked");
}

// --- all to all: from a cut of rows to a cut of columns

Program transposing() {
  Builder b = line();
  b.buffer("rows", {8, 12}, activation, {"y", ""});
  b.blocked("rows.packed", {8, 12}, activation, {"y", ""}, 1, "y");
  b.buffer("columns", {8, 12}, output, {"", "y"});
  b.task(TaskKind::forward);
  b.op("math", op::Fill{1, {2, 12}}, {"rows"});
  b.pack("math", "rows", "rows.packed");
  b.all_to_all("y", "rows.packed", "columns");
  return b.finish();
}

TEST(VerifyLayout, an_all_to_all_from_blocks_to_rows_is_sound) {
  EXPECT_EQ(all(verify(transposing())), "");
}
TEST(VerifyLayout, an_all_to_all_of_a_plain_buffer_is_a_fault) {
  Program program = transposing();
  const std::size_t all_to_all = find_instruction(program, "all_to_all");
  std::get<AllToAll>(program.instructions[all_to_all].what).from = {slice_of(program, "rows")};
  expect_fault(program, "layout", all_to_all, "equal parts of rows are not blocks of its dim 1");
}

// --- along several axes

/// 12 numbers scattered to 2 x 3 ranks along both axes at once, and gathered again.
Program along_both(const std::vector<std::string>& axes, const std::string& cuts) {
  const std::string name = axes[0] + "-" + axes[1];
  const Mesh mesh{"main", {{"x", 2}, {"y", 3}}, Ranks(Rank(0), 6)};
  Builder b(op::ProgramKind::train, Rank(4), mesh, {"math", name});
  b.serialize();
  b.group(axes);
  b.buffer("terms", {12}, activation);
  b.buffer("block", {12}, activation, {cuts});
  b.buffer("all", {12}, output);
  b.task(TaskKind::forward);
  b.op("math", op::Fill{0, {12}}, {"terms"});
  b.reduce_scatter(name, "terms", "block");
  b.op("math", op::Gelu{}, {"block", "block"});
  b.all_gather(name, "block", "all");
  return b.finish();
}

TEST(VerifyAxes, a_scatter_and_a_gather_along_two_axes_at_once_are_sound) {
  EXPECT_EQ(all(verify(along_both({"x", "y"}, "x,y"))), "");
}
TEST(VerifyAxes, cuts_in_another_order_than_that_of_the_members_are_a_fault) {
  const Program program = along_both({"x", "y"}, "y,x");
  expect_fault(program, "state", find_instruction(program, "reduce_scatter"),
               "block has no dim cut innermost by x-y");
}

// --- padding: 10 rows on 2 x 2 ranks, 3 on each

Program nested(const std::vector<std::string>& outer, const std::vector<std::string>& inner) {
  const Mesh mesh{"main", {{"x", 2}, {"y", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}};
  Builder b(op::ProgramKind::train, Rank(3), mesh, {"math", "y"});
  b.serialize();
  b.group({"y"});
  b.buffer("part", {10, 2}, activation, inner);
  b.buffer("half", {10, 2}, output, outer);
  b.task(TaskKind::forward);
  b.op("math", op::Fill{1, b.program.local_shape(BufferId(0))}, {"part"});
  b.all_gather("y", "part", "half");
  return b.finish();
}

TEST(VerifyPadding, a_gather_of_the_innermost_of_nested_cuts_is_sound) {
  EXPECT_EQ(all(verify(nested({"x:6", ""}, {"x:6,y:3", ""}))), "");
}
TEST(VerifyPadding, cuts_that_leave_padding_in_the_middle_are_a_fault) {
  expect_fault(nested({"x", ""}, {"x,y", ""}), "bounds", std::nullopt,
               "buffer part: the cuts of dim 0 do not nest in whole blocks of its 10 elements");
}
TEST(VerifyPadding, a_cyclic_cut_is_a_fault) {
  expect_fault(nested({"x:6", ""}, {"x:2,y:1", ""}), "bounds", std::nullopt, "do not nest");
}
TEST(VerifyPadding, another_block_than_the_gathered_one_is_a_fault) {
  const std::vector<Fault> faults = verify(nested({"x:5", ""}, {"x:6,y:3", ""}));
  EXPECT_EQ(faults.front().rule, "groups") << all(faults);
  EXPECT_NE(all(faults).find("part and half differ in more than the cut by y"), std::string::npos)
      << all(faults);
}

TEST(VerifyPadding, equal_parts_of_different_sizes_are_a_fault) {
  Builder b = line();
  b.buffer("a", {10}, activation, {"y"});
  b.buffer("b", {12}, output, {"y"});
  b.task(TaskKind::forward);
  b.op("math", op::Fill{1, {3}}, {"a"});
  b.op("math", op::Gelu{}, {"a", "b"});
  expect_fault(b.finish(), "state", 1, "dim 0 of b has 12 elements over all ranks, that of a 10");
}

// --- own blocks, with strides

Program own_copy(std::int64_t offset_rows) {
  const Mesh mesh{"main", {{"x", 2}, {"y", 2}}, {Rank(0), Rank(1), Rank(2), Rank(3)}};
  Builder b(op::ProgramKind::train, Rank(3), mesh, {"math"});
  b.buffer("half", {10, 2}, activation, {"x:6", ""});
  b.buffer("part", {10, 2}, output, {"x:6,y:3", ""});
  b.task(TaskKind::forward);
  b.op("math", op::Fill{1, {6, 2}}, {"half"});
  b.add("math", Copy{{BufferId(0), offset_rows * 8, 1, 24, 0}, b.slice("part")});
  return b.finish();
}

TEST(VerifyPart, a_copy_of_a_padded_own_block_is_sound) {
  EXPECT_EQ(all(verify(own_copy(3))), "");
}
TEST(VerifyPart, a_copy_of_another_padded_block_is_a_fault) {
  expect_fault(own_copy(0), "state", 1, "part is neither all of half nor this rank's block of it");
}

// --- attributes, on the last rank of a grid in which every axis counts

Program grid_train() {
  return grid_bundle({2, 2, 2, 2}, Rank(15), 2).programs[1];
}

template <class Row, class Change>
void expect_attribute_fault(const std::string& name, Change&& change, std::string_view message) {
  Program program = grid_train();
  const std::size_t index = find_instruction(program, name);
  change(compute_at(program, index).op.get<Row>());
  expect_fault(program, "part", index, message);
}

TEST(VerifyPart, every_attribute_that_depends_on_coordinates_is_recomputed) {
  expect_attribute_fault<op::Embedding>(
      "embedding", [](auto& row) { row.first_row = 0; },
      "first_row is 0, but this rank's part of embedding begins at 6");
  expect_attribute_fault<op::AddPositions>(
      "add_positions", [](auto& row) { row.first = 1; },
      "first is 1, but this rank's part of i begins at 0");
  expect_attribute_fault<op::Dropout>(
      "dropout", [](auto& row) { row.window.first = 0; },
      "the window's first is 0, but this rank's part of i begins at 6");
  expect_attribute_fault<op::Dropout>(
      "dropout", [](auto& row) { row.window.samples = 4; },
      "the window has 4 samples, but i has 8 over all ranks");
  expect_attribute_fault<op::Dropout>(
      "dropout", [](auto& row) { row.window.micro = 1; },
      "the window is of micro-batch 1 in a task of 0");
  expect_attribute_fault<op::Dropout>(
      "dropout", [](auto& row) { row.part.first[1] = 0; },
      "it is told that its part of i lies at [0, 0] of [4, 8], but it lies at [0, 4] of [4, 8]");
  expect_attribute_fault<op::Dropout>(
      "dropout", [](auto& row) { row.part = {}; }, "its part of i lies at [] of []");
  expect_attribute_fault<op::LayerNormApply>(
      "layer_norm_apply", [](auto& row) { row.width = 4; },
      "width is 4, but x0 has 8 over all ranks");
  expect_attribute_fault<op::Attention>(
      "attention", [](auto& row) { row.first_head = 0; },
      "first_head is 0, but this rank's part of qkv.xy begins at 3");
  expect_attribute_fault<op::AttentionGradient>(
      "attention_gradient", [](auto& row) { row.heads = 1; },
      "heads is 1, but qkv.xy has 4 over all ranks");
  expect_attribute_fault<op::LogitMax>(
      "logit_max", [](auto& row) { row.first_column = 0; },
      "first_column is 0, but this rank's part of logits begins at 6");
  expect_attribute_fault<op::LogitSums>(
      "logit_sums", [](auto& row) { row.columns = 0; },
      "columns is 0, but logits has 11 over all ranks");
  expect_attribute_fault<op::EmbeddingGradient>(
      "embedding_gradient", [](auto& row) { row.first_row = 5; },
      "first_row is 5, but this rank's part of g.embedding begins at 6");
}

// --- ZeRO-1

TEST(VerifyUpdateOnce, own_rows_of_another_rank_are_a_fault) {
  Program program = grid_train();
  const std::size_t adamw = find_compute(program, "adamw", 0, "own.embedding");
  compute_at(program, adamw).slices[5].offset_bytes = 0;
  expect_fault(program, "part", adamw,
               "the rows of embedding are not this rank's block, which m.embedding holds");
}

TEST(VerifyUpdateOnce, own_rows_gathered_along_another_axis_are_a_fault) {
  Program program = grid_train();
  const std::size_t adamw = find_compute(program, "adamw", 0, "own.embedding");
  std::size_t gather = adamw;
  while (!std::holds_alternative<AllGather>(program.instructions[gather].what)) ++gather;
  std::get<AllGather>(program.instructions[gather].what).group = GroupId(1);
  expect_fault(program, "update-once", gather,
               "rows of embedding cut by data, this gathers along z");
}

TEST(VerifyUpdateOnce, a_weight_read_before_it_is_gathered_is_a_fault) {
  Program program = grid_train();
  const std::size_t adamw = find_compute(program, "adamw", 0, "own.embedding");
  const std::size_t embedding = find_instruction(program, "embedding");
  const Instruction early = program.instructions[embedding];
  insert_instruction(program, adamw + 1, early);
  expect_fault(
      program, "update-once", adamw + 1,
      format("only this rank's rows of embedding are up to date since instruction {}", adamw));
}

TEST(VerifyUpdateOnce, an_update_task_without_updates_is_a_fault) {
  Program program = grid_train();
  for (std::size_t i = program.instructions.size(); i-- > 0;)
    if (const auto* what = std::get_if<Compute>(&program.instructions[i].what);
        what != nullptr && what->op.is<op::AdamW>())
      erase_instruction(program, i);
  EXPECT_NE(all(verify(program)).find("update-once: train: parameter qkv is not updated"),
            std::string::npos);
}

// --- state at the end, scratch, order

TEST(VerifyState, a_result_that_is_still_partial_at_the_end_is_a_fault) {
  Builder b = line();
  b.buffer("x", {8}, activation, {"y"});
  b.buffer("sum", {}, output);
  b.task(TaskKind::forward);
  b.op("math", op::Fill{1, {2}}, {"x"});
  b.op("math", op::BiasGradient{1, false}, {"x", "sum"});
  Program program = b.finish();
  expect_fault(program, "state", std::nullopt, "sum is partial sum(y) at the end, from byte 0 on");
}

TEST(VerifyDefined, what_a_kernel_leaves_in_its_workspace_is_no_value) {
  Builder b = line();
  b.buffer("scratch", {8}, activation);
  b.buffer("x", {8}, activation);
  b.buffer("y", {8}, output);
  b.task(TaskKind::forward);
  b.op("math", op::Fill{1, {8}}, {"x"});
  std::get<Compute>(b.program.instructions.back().what).workspace = b.slice("scratch");
  b.op("math", op::Gelu{}, {"scratch", "y"});
  expect_fault(b.finish(), "defined", 1, "bytes of scratch hold the scratch of a kernel");
}

TEST(VerifyOrder, collectives_of_a_group_on_two_streams_need_an_order) {
  const Mesh mesh{"main", {{"y", 2}}, {Rank(0), Rank(1)}};
  Builder b(op::ProgramKind::train, Rank(0), mesh, {"y", "other"});
  b.group({"y"});
  b.buffer("a", {8}, output);
  b.buffer("b", {8}, output);
  b.task(TaskKind::forward);
  b.op("y", op::Fill{0, {8}}, {"a"});
  b.all_reduce("y", "a");
  b.op("other", op::Fill{0, {8}}, {"b"});
  b.add("other", AllReduce{GroupId(0), op::Reduction::sum, {b.slice("b")}});
  Program program = b.finish();
  expect_fault(program, "order", 3, "no wait orders it after instruction 1 (all_reduce -> &a");
  program.instructions[3].stream = StreamId(0);
  EXPECT_EQ(verify(program).front().rule, "race");  // with the fill on the other stream
  program.instructions[2].stream = StreamId(0);
  EXPECT_EQ(all(verify(program)), "");
}

}  // namespace
}  // namespace fourfold::verify
