// What collectives carry of gradients where a plan rounds them (precision.reduce = bf16), what
// stays float32, and that no other program has anything of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "program/text.h"
#include "unit/compile/grid_setup.h"
#include "verify/verify.h"

namespace fourfold::compile {
namespace {

using program::BufferRole;
using program::Compute;
using program::Program;
using program::Slice;

GridSetup rounding_setup(const plan::Grid& grid, bool rounds = true) {
  GridSetup setup;
  setup.plan.compute = DType::bf16;
  setup.plan.rounds_gradients = rounds;
  setup.set_grid(grid, 3);
  return setup;
}

std::vector<GridSetup> setups_that_round() {
  std::vector<GridSetup> setups;
  for (const plan::Grid& grid : std::vector<plan::Grid>{{.z = 2, .data = 1},
                                                        {.z = 1, .data = 2},
                                                        {.z = 2, .data = 2},
                                                        {.x = 2, .y = 1, .z = 1, .data = 1},
                                                        {.x = 2, .y = 2, .z = 2, .data = 2}})
    for (const bool other : {false, true}) {
      setups.push_back(rounding_setup(grid));
      setups.back().plan.checkpointing.layers = other ? 1 : 0;
      setups.back().plan.shard_states = other && grid.data > 1;
      setups.back().gpt.tied_head = !other;
      setups.back().gpt.wide_residual = other;
    }
  GridSetup unet;
  unet.unet = model::UnetSpec{.picture = {8, 8, 3},
                              .channels = 16,
                              .channel_mult = {1, 2},
                              .layers_per_level = 1,
                              .attention_resolutions = {4},
                              .num_heads = 4,
                              .norm_groups = 8,
                              .num_classes = 10,
                              .diffusion = {.steps = 10, .learn_sigma = true, .sampling = {}}};
  unet.unet->diffusion.time_sampling = model::TimeSampling::importance;
  unet.plan = setups[0].plan;
  unet.plan.seq_length = 1;
  unet.set_grid({.x = 2, .y = 1, .z = 2, .data = 2}, 2);
  setups.push_back(unet);
  return setups;
}

const program::Buffer& buffer_at(const Program& program, const Slice& slice) {
  return program.buffer(slice.buffer);
}

/// Calls `visit(from)` for each tensor of a collective that adds up or gathers gradients of
/// weights; results of the step and what else is learned from are not among them.
template <class Visit>
void for_each_gradient_carried(const Program& program, const Visit& visit) {
  for (const program::Instruction& instruction : program.instructions)
    std::visit(
        [&]<class What>(const What& what) {
          if constexpr (requires { what.group; }) {
            if (!program.groups[what.group.index()].name.ends_with(".gradients")) return;
            program::for_each_tensor(what, [&](const Slice& from, const Slice&) {
              if (buffer_at(program, from).name.starts_with("gradient/")) visit(from);
            });
          }
        },
        instruction.what);
}

std::int64_t bytes_carried(const Program& program) {
  std::int64_t bytes = 0;
  for_each_gradient_carried(program, [&](const Slice& from) { bytes += from.bytes(); });
  return bytes;
}

TEST(RoundedGradients, collectives_carry_bf16_and_half_the_bytes) {
  for (const GridSetup& setup : setups_that_round()) {
    SCOPED_TRACE(text_of(setup.plan.grid));
    const Program rounded = setup.train();
    for_each_gradient_carried(rounded, [&](const Slice& from) {
      EXPECT_EQ(buffer_at(rounded, from).dtype, DType::bf16) << buffer_at(rounded, from).name;
    });
    GridSetup plain = setup;
    plain.plan.rounds_gradients = false;
    EXPECT_GT(bytes_carried(rounded), 0);
    EXPECT_EQ(2 * bytes_carried(rounded), bytes_carried(plain.train()));
  }
}

/// Sums over micro-batches, norms and updates read and write float32.
TEST(RoundedGradients, all_that_is_added_up_on_a_rank_is_float32) {
  for (const GridSetup& setup : setups_that_round()) {
    SCOPED_TRACE(text_of(setup.plan.grid));
    const Program train = setup.train();
    std::size_t sums = 0, roundings = 0, widenings = 0;
    for (const program::Instruction& instruction : train.instructions) {
      const auto* compute = std::get_if<Compute>(&instruction.what);
      if (compute == nullptr) continue;
      const program::Buffer& to = buffer_at(train, compute->slices.back());
      const bool is_of_gradient = to.name.starts_with("gradient/");
      if (to.role == BufferRole::gradient || (is_of_gradient && op::can_accumulate(compute->op))) {
        EXPECT_EQ(to.dtype, accumulation_type(to.dtype)) << to.name;
        ++sums;
      }
      if (op::is_rounding(compute->op) && is_of_gradient) ++roundings;
      if (op::is_widening(compute->op)) ++widenings;
      if (op::is_sum_of_two(compute->op)) {
        EXPECT_FALSE(is_of_gradient && to.dtype == DType::bf16) << to.name;
      }
      if (const auto gradient = op::operand_of(compute->op, op::State::gradient)) {
        EXPECT_EQ(buffer_at(train, compute->slices[*gradient]).dtype, DType::f32);
      }
    }
    EXPECT_GT(sums, 0U);
    EXPECT_GT(roundings, 0U);
    EXPECT_GT(widenings, 0U);
  }
}

TEST(RoundedGradients, what_a_model_learns_of_its_losses_is_not_rounded) {
  const Program train = setups_that_round().back().train();
  const auto losses = train.find_buffer("losses_of_step");
  ASSERT_TRUE(losses.has_value());
  bool is_carried = false;
  for (const program::Instruction& instruction : train.instructions)
    for (const program::Access& access : program::accesses(instruction))
      if (access.slice.buffer == *losses &&
          std::holds_alternative<program::AllReduce>(instruction.what))
        is_carried = true;
  EXPECT_TRUE(is_carried);
  EXPECT_EQ(train.buffer(*losses).dtype, DType::f32);
  EXPECT_FALSE(train.find_buffer("losses_of_step/cast").has_value());
}

TEST(RoundedGradients, the_verifier_finds_no_fault_and_programs_read_back) {
  for (const GridSetup& setup : setups_that_round()) {
    SCOPED_TRACE(text_of(setup.plan.grid));
    const program::Bundle bundle = setup.bundle();
    for (const verify::Fault& fault : verify::verify(bundle))
      ADD_FAILURE() << fault.rule << ": " << fault.message;
    const std::string text = program::to_text(bundle);
    EXPECT_EQ(program::parse_bundle(text, "reduce"), bundle);
    EXPECT_NE(text.find("\n  reduce      bf16\n"), text.npos);
    for (const program::Program& program : bundle.programs)
      EXPECT_EQ(program.reduce.has_value(), program.kind == op::ProgramKind::train)
          << op::to_string(program.kind);
  }
}

TEST(RoundedGradients, programs_that_move_none_or_have_one_precision_do_not_change) {
  const auto expect_same = [](GridSetup setup) {
    setup.plan.rounds_gradients = true;
    GridSetup plain = setup;
    plain.plan.rounds_gradients = false;
    EXPECT_EQ(program::to_text(setup.bundle()), program::to_text(plain.bundle()));
  };
  expect_same(rounding_setup({.x = 1, .y = 1, .z = 1, .data = 1}));
  for (const DType compute : {DType::f32, DType::f64}) {
    GridSetup setup = rounding_setup({.x = 1, .y = 1, .z = 2, .data = 2});
    setup.plan.compute = compute;
    expect_same(setup);
  }
}

std::size_t count_collectives(const Program& program) {
  std::size_t count = 0;
  for (const program::Instruction& instruction : program.instructions)
    std::visit([&](const auto& what) { count += requires { what.group; } ? 1 : 0; },
               instruction.what);
  return count;
}

/// In the update the first gradient is widened after the last has been rounded, so that those of
/// small tensors may join.
TEST(RoundedGradients, move_one_after_another_before_the_first_is_widened) {
  for (const plan::Grid& grid :
       {plan::Grid{.z = 2, .data = 2}, plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}}) {
    SCOPED_TRACE(text_of(grid));
    const Program rounded = rounding_setup(grid).train();
    std::size_t last_rounded = 0, first_widened = rounded.instructions.size();
    for (std::size_t i = rounded.tasks.back().begin; i < rounded.tasks.back().end; ++i) {
      const auto* compute = std::get_if<Compute>(&rounded.instructions[i].what);
      if (compute != nullptr && op::is_rounding(compute->op)) last_rounded = i;
      if (compute != nullptr && op::is_widening(compute->op))
        first_widened = std::min(first_widened, i);
    }
    EXPECT_GT(last_rounded, 0U);
    EXPECT_LT(last_rounded, first_widened);
    EXPECT_LT(first_widened, rounded.instructions.size());
    // Buckets hold what is not rounded.
    GridSetup plain = rounding_setup(grid, false);
    plain.plan.bucket_bytes = 0;
    EXPECT_LE(count_collectives(rounded), count_collectives(plain.train()));
  }
}

/// The lines that touch the gradient of a weight, without waits, in the order of the program; "G"
/// is the name of the gradient, "W" that of the weight.
std::string gradient_lines(const Program& program, const std::string& weight) {
  std::string lines;
  for (const program::Instruction& instruction : program.instructions) {
    const std::vector<program::Access> list = program::accesses(instruction);
    const bool touches = std::ranges::any_of(list, [&](const program::Access& access) {
      return buffer_at(program, access.slice).name.starts_with("gradient/" + weight);
    });
    if (touches) lines += program::short_text(program, instruction) + "\n";
  }
  for (const auto& [name, letter] : {std::pair("gradient/" + weight, "G"), {weight, "W"}})
    for (std::size_t at = lines.find(name); at != lines.npos; at = lines.find(name, at))
      lines.replace(at, name.size(), letter);
  return lines;
}

TEST(RoundedGradients, a_weight_is_rounded_scattered_widened_and_added_then_reduced_over_data) {
  GridSetup setup = rounding_setup({.x = 1, .y = 1, .z = 2, .data = 2});
  setup.set_grid(setup.plan.grid, 2);
  EXPECT_EQ(gradient_lines(setup.train(), "blocks.0.mlp.down.weight"),
            R"(contract blocks.0.mlp.gelu, blocks.0.mlp.residual/sum -> G/part
cast G/part -> G/part/cast
reduce_scatter G/part/cast -> G/part/cast/scattered.z group z.gradients reduction sum
widen G/part/cast/scattered.z -> G
contract blocks.0.mlp.gelu, blocks.0.mlp.residual/sum -> G/part
cast G/part -> G/part/cast
reduce_scatter G/part/cast -> G/part/cast/scattered.z group z.gradients reduction sum
add_rounded G, G/part/cast/scattered.z -> G
cast G -> G/cast
all_reduce -> &gradient/wte.weight/cast and 9 more group data.gradients reduction sum
widen G/cast -> G
squared_norm G -> &result.squared_norm
adamw G, step.lr, result.scale, result.applied, updates -> &W, &m/W, &v/W, &W/rounded, &result.non_finite
)");
}

}  // namespace
}  // namespace fourfold::compile
