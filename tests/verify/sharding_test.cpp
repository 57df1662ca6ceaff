// Broken sharding: faults of groups, states, updates and feeds.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/examples.h"
#include "verify/faults.h"

namespace fourfold::verify {
namespace {

// --- groups, state

TEST(VerifyGroups, a_group_of_other_ranks_is_a_fault) {
  Program program = sharded_train();
  program.groups[0].members = {Rank(0), Rank(2)};
  expect_fault(program, "groups", std::nullopt, "group z has the ranks 0 2, expected 1 3");
}

TEST(VerifyGroups, a_group_in_another_order_is_a_fault) {
  Program program = sharded_train();
  program.groups[1].members = {program.groups[1].members[1], program.groups[1].members[0]};
  expect_fault(program, "groups", std::nullopt, "group x has the ranks 3 2");
}

TEST(VerifyGroups, unequal_parts_are_a_fault) {
  Program program = sharded_train();
  const std::size_t gather = find_instruction(program, "all_gather");
  std::get<AllGather>(program.instructions[gather].what).to[0].row_bytes = 192;
  expect_fault(program, "groups", gather, "192 bytes are not 2 parts of 128 bytes");
}

/// The same program with one more group, along both axes of its mesh.
GroupId add_group_of_both(Program& program, std::vector<AxisId> axes, Ranks members) {
  program.groups.push_back({"both", MeshId(0), std::move(axes), std::move(members)});
  return GroupId(program.groups.size() - 1);
}
const AxisId z(std::size_t{0}), x(std::size_t{1});

TEST(VerifyGroups, a_group_along_an_axis_twice_or_along_none_is_a_fault) {
  Program program = sharded_train();
  add_group_of_both(program, {x, x}, {Rank(2), Rank(3)});
  expect_fault(program, "bounds", std::nullopt, "group both names an axis twice");
  program.groups.back().axes.clear();
  expect_fault(program, "bounds", std::nullopt, "group both lies along an axis that does not");
}

TEST(VerifyGroups, the_members_along_several_axes_stand_in_the_order_of_the_axes) {
  Program program = sharded_train();
  add_group_of_both(program, {z, x}, {Rank(0), Rank(1), Rank(2), Rank(3)});
  EXPECT_EQ(all(verify(program)), "");
  program.groups.back().axes = {x, z};
  expect_fault(program, "groups", std::nullopt,
               "group both has the ranks 0 1 2 3, expected 0 2 1 3");
}

TEST(VerifyState, a_vote_summed_up_over_all_axes_at_once_is_sound) {
  Program program = sharded_train();
  std::size_t last = find_instruction(program, "update_control");  // the sum over x
  while (name(program.instructions[last]) != "all_reduce") --last;
  std::size_t first = last - 1;  // over z
  while (name(program.instructions[first]) != "all_reduce") --first;
  const GroupId both = add_group_of_both(program, {z, x}, {Rank(0), Rank(1), Rank(2), Rank(3)});
  std::get<AllReduce>(program.instructions[last].what).group = both;
  expect_fault(program, "state", last, "so there is nothing to reduce along z");
  erase_instruction(program, first);
  EXPECT_EQ(all(verify(program)), "");
}

TEST(VerifyState, a_dropped_all_reduce_of_a_product_is_a_fault) {
  Program program = sharded_train();
  erase_instruction(program, find_instruction(program, "all_reduce"));
  // The head is linear in the partial sum; the loss is not.
  expect_fault(program, "state", find_instruction(program, "cross_entropy"),
               "logits is partial sum(x)");
}

TEST(VerifyState, a_reduction_along_another_axis_is_a_fault) {
  Program program = sharded_train();
  const std::size_t reduce = find_instruction(program, "all_reduce");
  std::get<AllReduce>(program.instructions[reduce].what).group = GroupId(0);
  expect_fault(program, "state", reduce,
               "p is partial sum(x), so there is nothing to reduce along z");
}

TEST(VerifyState, a_reduction_by_maximum_of_a_sum_is_a_fault) {
  Program program = sharded_train();
  const std::size_t reduce = find_instruction(program, "all_reduce");
  std::get<AllReduce>(program.instructions[reduce].what).reduction = op::Reduction::max;
  expect_fault(program, "state", reduce);
}

TEST(VerifyState, a_gradient_reduced_twice_is_a_fault) {
  Program program = sharded_train();
  const std::size_t reduce = find_compute(program, "all_reduce", 0, "g.head");
  const Instruction again = program.instructions[reduce];
  insert_instruction(program, reduce + 1, again);
  expect_fault(program, "state", reduce + 1, "g.head is not partial");
}

TEST(VerifyState, the_norm_of_a_partial_gradient_is_a_fault) {
  Program program = sharded_train();
  erase_instruction(program, find_compute(program, "all_reduce", 0, "g.head"));
  expect_fault(program, "state", find_compute(program, "squared_norm", 0, "g.head"),
               "g.head is partial sum(z)");
}

TEST(VerifyState, a_vote_that_is_not_summed_up_over_all_axes_is_a_fault) {
  Program program = sharded_train();
  const std::size_t control = find_instruction(program, "update_control");
  std::size_t last = control;  // the sum over x
  while (name(program.instructions[last]) != "all_reduce") --last;
  erase_instruction(program, last);
  expect_fault(program, "state", control - 1, "result is partial sum(x)");
}

TEST(VerifyState, adding_a_partial_norm_to_a_whole_one_is_a_fault) {
  Program program = sharded_train();
  const std::size_t norm = find_compute(program, "squared_norm", 0, "g.down");
  compute_at(program, norm).slices[0] = slice_of(program, "g.head");
  expect_fault(program, "state", norm,
               "norm.cut is partial sum(z) sum(x), what is added to it is not partial");
}

TEST(VerifyState, a_claim_of_another_axis_is_a_fault) {
  Program program = sharded_train();
  buffer_named(program, "up.part").sharding.dims[1] = buffer_named(program, "up").sharding.dims[0];
  expect_fault(program, "state", find_compute(program, "contract", 2, "up.part"),
               "up.part claims the cuts of");
}

TEST(VerifyState, a_gather_whose_parts_are_not_blocks_of_the_dim_is_a_fault) {
  Program program = sharded_train();
  for (const std::string_view name : {"up", "m.up", "v.up", "g.up"})
    buffer_named(program, name).sharding.dims = {{}, {{AxisId(1), {}}, {AxisId(0), {}}}};
  expect_fault(program, "layout", find_instruction(program, "all_gather"),
               "equal parts of up.full are not blocks of its dim 1");
}

TEST(VerifyState, a_gather_of_an_outer_cut_is_a_fault) {
  Program program = sharded_train();
  for (const std::string_view name : {"down", "m.down", "v.down", "g.down"})
    std::swap(buffer_named(program, name).sharding.dims[0][0],
              buffer_named(program, name).sharding.dims[0][1]);
  expect_fault(program, "state", find_instruction(program, "all_gather", 1),
               "down has no dim cut innermost by z");
}

TEST(VerifyState, an_embedding_of_another_part_of_the_vocabulary_is_a_fault) {
  Program program = sharded_train();
  const std::size_t embedding = find_instruction(program, "embedding");
  compute_at(program, embedding).op = op::Embedding{8};
  expect_fault(program, "part", embedding,
               "first_row is 8, but this rank's part of embedding begins at 0");
}

TEST(VerifyState, a_parameter_that_claims_to_be_partial_is_a_fault) {
  Program program = sharded_train();
  buffer_named(program, "head").sharding.partial = {{AxisId(0), op::Reduction::sum}};
  expect_fault(program, "state", std::nullopt, "head claims to be partial sum(z)");
}

/// A program that copies the replicated `all` to this rank's block of a dim cut by z.
Program slicing(std::int64_t offset_bytes) {
  const Mesh mesh{"main", {{"z", 2}}, {Rank(0), Rank(1)}};
  Builder b(op::ProgramKind::train, Rank(1), mesh, {"math"});
  b.buffer("all", {4, 8}, {BufferRole::activation, DType::f32});
  b.buffer("block", {4, 8}, {BufferRole::output, DType::f32}, {"", "z"});
  b.task(TaskKind::forward);
  b.op("math", op::Fill{1, {4, 8}}, {"all"});
  b.add("math", Copy{{BufferId(0), offset_bytes, 4, 16, 32}, b.slice("block")});
  return b.finish();
}

TEST(VerifyState, a_copy_of_this_ranks_block_cuts_a_dim) {
  EXPECT_EQ(all(verify(slicing(16))), "");
}
TEST(VerifyState, a_copy_of_another_ranks_block_is_a_fault) {
  expect_fault(slicing(0), "state", 1, "block is neither all of all nor this rank's block of it");
}

// --- update-once, feeds

TEST(VerifyUpdateOnce, a_gradient_that_is_still_partial_is_a_fault) {
  Program program = sharded_train();
  erase_instruction(program, find_compute(program, "all_reduce", 0, "g.head"));
  erase_instruction(program, find_compute(program, "squared_norm", 0, "g.head"));
  expect_fault(program, "update-once", find_compute(program, "adamw", 0, "g.head"),
               "g.head is partial sum(z)");
}

TEST(VerifyUpdateOnce, a_parameter_updated_twice_is_a_fault) {
  Program program = tiny_train();
  const std::size_t adamw = find_compute(program, "adamw", 0, "g.head");
  const Instruction again = program.instructions[adamw];
  insert_instruction(program, adamw + 1, again);
  expect_fault(program, "update-once", adamw + 1, "has already updated head");
}

TEST(VerifyUpdateOnce, a_forgotten_parameter_is_a_fault) {
  Program program = tiny_train();
  erase_instruction(program, find_compute(program, "adamw", 0, "g.head"));
  expect_fault(program, "update-once", std::nullopt, "parameter head is not updated");
}

TEST(VerifyUpdateOnce, two_parameters_with_one_moment_are_a_fault) {
  Program program = tiny_train();
  const std::size_t adamw = find_compute(program, "adamw", 0, "g.head");
  compute_at(program, adamw).slices[6] = slice_of(program, "m.up.weight");
  expect_fault(program, "update-once", adamw, "has already updated m.up.weight");
}

TEST(VerifyUpdateOnce, counting_before_updating_is_a_fault) {
  Program program = tiny_train();
  const std::size_t adamw = find_instruction(program, "adamw");
  const std::size_t count = find_instruction(program, "count_update");
  std::rotate(program.instructions.begin() + static_cast<std::ptrdiff_t>(adamw),
              program.instructions.begin() + static_cast<std::ptrdiff_t>(count),
              program.instructions.begin() + static_cast<std::ptrdiff_t>(count + 1));
  expect_fault(program, "update-once", adamw + 1, "has already counted in updates");
}

TEST(VerifyUpdateOnce, an_update_that_is_not_counted_is_a_fault) {
  Program program = tiny_train();
  erase_instruction(program, find_instruction(program, "count_update"));
  expect_fault(program, "update-once", std::nullopt, "nothing is counted in updates");
}

TEST(VerifyUpdateOnce, what_is_not_finite_and_is_not_kept_is_a_fault) {
  Program program = tiny_train();
  erase_instruction(program, find_instruction(program, "count_non_finite"));
  expect_fault(program, "update-once", std::nullopt, "nothing is counted in non_finite");
}

TEST(VerifyUpdateOnce, a_vote_on_the_number_of_updates_is_a_fault) {
  Program program = tiny_train();
  const std::size_t vote = find_instruction(program, "vote");
  compute_at(program, vote).slices[4] = slice_of(program, "updates");
  expect_fault(program, "update-once", vote,
               "it takes updates for the number of elements that are not finite");
}

TEST(VerifyFeeds, a_micro_batch_fed_twice_is_a_fault) {
  Program program = tiny_train();
  const std::size_t feed = find_instruction(program, "feed", 2);
  std::get<Feed>(program.instructions[feed].what).micro = 0;
  expect_fault(program, "feeds", feed, "has fed tokens of micro-batch 0 before");
}

TEST(VerifyFeeds, a_micro_batch_never_fed_is_a_fault) {
  Program program = tiny_train();
  erase_instruction(program, find_instruction(program, "feed", 3));
  expect_fault(program, "feeds", std::nullopt, "1 of 2 micro-batches are fed their labels");
}

TEST(VerifyFeeds, what_is_read_as_something_else_is_a_fault) {
  Program program = tiny_train();
  for (Instruction& instruction : program.instructions)
    if (auto* feed = std::get_if<Feed>(&instruction.what))
      feed->input = InputId(1 - feed->input.index());
  expect_fault(program, "feeds", find_instruction(program, "embedding"),
               "embedding reads the labels in tokens as tokens");
}

TEST(VerifyFeeds, a_micro_batch_out_of_range_is_a_fault) {
  Program program = tiny_train();
  const std::size_t feed = find_instruction(program, "feed", 2);
  std::get<Feed>(program.instructions[feed].what).micro = 2;
  expect_fault(program, "feeds", feed, "micro-batch 2 of 2");
}

TEST(VerifyFeeds, a_buffer_of_another_length_is_a_fault) {
  Program program = tiny_train();
  program.inputs[0].sample_shape = {5};
  expect_fault(program, "feeds", 0, "32 bytes of tokens do not hold 2 samples of 20 bytes");
}

TEST(VerifyFeeds, another_element_type_is_a_fault) {
  Program program = tiny_train();
  program.inputs[0].dtype = DType::u8;
  expect_fault(program, "feeds", 0, "tokens holds i32, expected u8");
}

TEST(VerifyFeeds, an_input_that_nothing_feeds_is_a_fault) {
  Program program = tiny_train();
  program.inputs.push_back({"pixels", DType::u8, {4, 4}});
  expect_fault(program, "feeds", std::nullopt, "0 of 2 micro-batches are fed their pixels");
}

TEST(VerifyFeeds, an_input_of_no_size_or_of_a_name_that_there_is_is_a_fault) {
  Program program = tiny_train();
  program.inputs[0].sample_shape = {1LL << 40, 1LL << 40};
  expect_fault(program, "bounds", std::nullopt, "input tokens: the shape");
  Program twice = tiny_train();
  twice.inputs[1].name = "tokens";
  expect_fault(twice, "names", std::nullopt, "tokens is the name of more than one input");
  Program beyond = tiny_train();
  std::get<Feed>(beyond.instructions[0].what).input = InputId(7);
  expect_fault(beyond, "bounds", 0, "input 7 does not exist");
}

TEST(VerifyFeeds, chunks_that_do_not_divide_the_samples_are_a_fault) {
  for (const std::int64_t chunks : {0, -1, 3, 4}) {
    Program program = tiny_train();
    program.feeds.chunks = chunks;
    expect_fault(program, "bounds", std::nullopt, format("{} chunks of 2 samples", chunks));
  }
}

TEST(VerifyFeeds, a_chunk_out_of_range_is_a_fault) {
  Program program = tiny_train();
  const std::size_t feed = find_instruction(program, "feed", 2);
  std::get<Feed>(program.instructions[feed].what).chunk = 1;
  expect_fault(program, "feeds", feed, "chunk 1 of 1");
}

TEST(VerifyFeeds, a_whole_micro_batch_in_place_of_a_chunk_is_a_fault) {
  Program program = tiny_train();
  program.feeds.chunks = 2;
  expect_fault(program, "feeds", 0, "32 bytes of tokens do not hold 1 samples of 16 bytes");
}

TEST(VerifyFeeds, another_ranks_samples_are_a_fault) {
  Program program = sharded_train();
  program.feeds.first = 0;
  expect_fault(program, "feeds", 0, "gives this rank samples from 2 on, the feeds from 0");
}

}  // namespace
}  // namespace fourfold::verify
