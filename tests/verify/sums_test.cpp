// Sums that lack a contribution, have one twice or one that belongs elsewhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <set>

#include "program/examples.h"
#include "verify/content.h"
#include "verify/faults.h"

namespace fourfold::verify {
namespace {

/// One of the faults is of rule "sum" and at that instruction, and says this.
void expect_sum_fault(const Program& program, std::size_t instruction, std::string_view part) {
  const std::vector<Fault> faults = verify(program);
  const auto is_it = [&](const Fault& fault) {
    return fault.rule == "sum" && fault.instruction == instruction &&
           fault.message.find(part) != std::string::npos;
  };
  EXPECT_TRUE(std::any_of(faults.begin(), faults.end(), is_it)) << part << "\n" << all(faults);
}

/// The `count`-th row of that name that writes that buffer.
std::size_t writer_of(const Program& program, std::string_view row, std::string_view buffer,
                      std::size_t count = 0) {
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    if (name(program.instructions[i]) != row) continue;
    for (const Access& access : accesses(program.instructions[i]))
      if (access.role != op::Role::read && program.buffer(access.slice.buffer).name == buffer &&
          count-- == 0)
        return i;
  }
  ADD_FAILURE() << row << " -> " << buffer;
  return 0;
}
std::size_t norm_of(const Program& program, std::string_view gradient) {
  return find_compute(program, "squared_norm", 0, gradient);
}

TEST(VerifySum, numbers_that_are_near_to_each_other_do_not_meet) {
  std::set<std::uint64_t> met;
  for (std::uint64_t sum = 0; sum < 20'000; ++sum)
    for (std::uint64_t kind = 1; kind <= 10; ++kind) met.insert(mixed(sum, mixed(kind, 7)));
  EXPECT_EQ(met.size(), 200'000U);
}

TEST(VerifySum, a_gradient_left_out_of_one_micro_batch_is_a_fault) {
  const Program sound = tiny_train(3);
  for (const std::size_t micro : {1U, 2U}) {
    Program program = sound;
    erase_instruction(program, writer_of(program, "contract", "g.up.weight", micro));
    expect_sum_fault(program, norm_of(program, "g.up.weight"),
                     format("the sum in g.up.weight is not complete: nothing adds for micro-batch "
                            "{} what it has of micro-batch",
                            micro));
  }
}

TEST(VerifySum, a_gradient_added_twice_is_a_fault) {
  Program program = tiny_train(3);
  const std::size_t at = writer_of(program, "contract", "g.head", 2);
  const Instruction again = program.instructions[at];
  insert_instruction(program, at + 1, again);
  expect_sum_fault(program, at + 1, "g.head has this contribution already");
}

TEST(VerifySum, a_gradient_added_to_that_of_another_weight_is_a_fault) {
  Program program = tiny_train(3);
  const std::size_t at = writer_of(program, "layer_norm_weight_gradient", "g.norm.gain", 1);
  std::swap(compute_at(program, at).slices[4], compute_at(program, at).slices[5]);
  for (const std::string_view gradient : {"g.norm.gain", "g.norm.bias"})
    expect_sum_fault(
        program, norm_of(program, gradient),
        format("what micro-batch 1 and micro-batch 0 add to {} is not the same", gradient));
}

TEST(VerifySum, a_contribution_from_another_micro_batch_is_a_fault) {
  Program program = tiny_train(3);
  erase_instruction(program, find_instruction(program, "gelu", 1));
  expect_sum_fault(program, writer_of(program, "contract", "g.down.weight", 1),
                   "it reads y_grad of micro-batch 1 together with what is of micro-batch 0");
}

TEST(VerifySum, a_gradient_rounded_for_no_collective_is_a_fault) {
  Program program = tiny_train(2);
  const Slice gradient = slice_of(program, "g.head");
  Buffer buffer = program.buffer(gradient.buffer);
  buffer.name = "copy";
  buffer.role = BufferRole::activation;
  buffer.offset_bytes = (program.transient_bytes + 63) / 64 * 64;
  program.transient_bytes = buffer.offset_bytes + buffer.size_bytes;
  program.buffers.push_back(buffer);
  const Slice copy = slice_of(program, "copy");
  const std::size_t at = norm_of(program, "g.head");
  const auto insert = [&](std::size_t index, const op::Op& row, const Slice& from,
                          const Slice& to) {
    const Compute compute{row, DType::f32, {from, to}, std::nullopt, "reference"};
    insert_instruction(program, index, {program.instructions[at].stream, compute});
  };
  insert(at, op::rounding(), gradient, copy);
  insert(at + 1, op::widening(), copy, gradient);
  expect_sum_fault(program, at + 1, "does not say that it reduces gradients in f32");
  program.reduce = DType::f32;
  expect_sum_fault(program, at + 1, "no collective has carried copy, which was rounded for one");
}

TEST(VerifySum, a_use_of_a_weight_without_a_contribution_is_a_fault) {
  // A second use in each micro-batch, for which nothing adds to the gradient.
  Program program = tiny_train(2);
  for (std::size_t micro = 0; micro < 2; ++micro) {
    const std::size_t at = writer_of(program, "contract", "logits", 2 * micro);
    const Instruction again = program.instructions[at];
    insert_instruction(program, at + 1, again);
  }
  expect_sum_fault(
      program, find_compute(program, "adamw", 0, "g.head"),
      "the gradient of head has 1 contributions of micro-batch 0, but 2 of its forward "
      "pass use the weight");
}

TEST(VerifySum, gradients_exchanged_in_the_update_are_a_fault) {
  Program program = tiny_train(2);
  const std::size_t up = find_compute(program, "adamw", 0, "g.up.weight"),
                    head = find_compute(program, "adamw", 0, "g.head");
  std::swap(compute_at(program, up).slices[0], compute_at(program, head).slices[0]);
  expect_sum_fault(program, up, "the gradient of up.weight has a contribution of another weight");
  expect_sum_fault(program, head, "the gradient of head has a contribution of another weight");
}

TEST(VerifySum, a_loss_of_one_micro_batch_left_out_is_a_fault) {
  Program program = tiny_train(3);
  erase_instruction(program, find_instruction(program, "loss_sum", 1));
  expect_sum_fault(program, find_instruction(program, "vote"), "result.loss_sum");
}

TEST(VerifySum, a_loss_that_nobody_reads_is_complete_at_the_end) {
  Program program = tiny_train(3);
  const std::size_t at = find_instruction(program, "loss_sum", 2);
  erase_instruction(program, at);
  erase_instruction(program, find_instruction(program, "vote"));
  EXPECT_NE(all(verify(program)).find("sum: "), std::string::npos);
}

TEST(VerifySum, a_norm_that_lacks_a_gradient_is_a_fault) {
  Program program = tiny_train();
  erase_instruction(program, norm_of(program, "g.up.bias"));
  expect_sum_fault(program, find_instruction(program, "vote"),
                   "the sum over all gradients has the gradient of up.bias not at all");
}

TEST(VerifySum, a_norm_that_has_a_gradient_twice_is_a_fault) {
  Program program = tiny_train();
  const std::size_t lost = norm_of(program, "g.norm.bias");
  compute_at(program, lost).slices[0] = slice_of(program, "g.norm.gain");
  expect_sum_fault(program, lost, "result.squared_norm has this contribution already");
}

TEST(VerifySum, a_count_that_lacks_an_update_is_a_fault) {
  Program program = tiny_train();
  const std::size_t second = find_instruction(program, "adamw", 1);
  const Buffer& first =
      program.buffer(compute_at(program, find_instruction(program, "adamw")).slices[5].buffer);
  compute_at(program, second).op.get<op::AdamW>().accumulate = false;
  expect_sum_fault(program, find_instruction(program, "count_non_finite"),
                   format("the sum over all updates has the update of {} not at all", first.name));
}

TEST(VerifySum, a_sum_read_before_it_is_complete_is_a_fault) {
  Program program = tiny_train(3);
  const std::size_t at = norm_of(program, "g.head");
  const Instruction norm = program.instructions[at];
  erase_instruction(program, at);
  const std::size_t last = writer_of(program, "contract", "g.head", 2);
  insert_instruction(program, last, norm);
  expect_sum_fault(program, last,
                   "the sum in g.head is not complete: nothing adds for micro-batch 2");
}

/// A look at each term again and again would take two to the power of their number: no time is
/// measured, as none would be enough.
TEST(VerifySum, sums_of_sums_are_looked_at_once) {
  Contents contents(2);
  ValueId sum = contents.sum(contents.one(1, 1, 0), contents.one(1, 1, 1));
  for (int i = 0; i < 100000; ++i) sum = contents.sum(sum, sum);
  EXPECT_FALSE(contents.complete(sum));
  EXPECT_TRUE(contents.first_kinds(sum));
}

}  // namespace
}  // namespace fourfold::verify
