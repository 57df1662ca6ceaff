// Rounded copies of weights that are kept from step to step: who writes them, who has none, and
// what they cost.
#include "compile/keep_rounded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "unit/compile/grid_setup.h"
#include "verify/verify.h"

namespace fourfold::compile::keep_rounded_test {
namespace {

using program::BufferRole;
using program::Bundle;
using program::Compute;
using program::Program;

GridSetup setup_of(const plan::Grid& grid, std::int64_t layers = 0, bool shard_states = false) {
  GridSetup setup;
  setup.plan.compute = DType::bf16;
  setup.plan.checkpointing.layers = layers;
  setup.plan.shard_states = shard_states;
  setup.set_grid(grid, 3);
  return setup;
}

Bundle bundle_of(const GridSetup& setup, const std::vector<std::string>& without = {}) {
  const graph::ModelGraphs model = setup.graphs();
  return compile(model, setup.solved(model), GridSetup::target(), {without, {}}).classes[0];
}

/// Names of the weights that a program casts.
std::set<std::string> cast_weights(const Program& program) {
  std::set<std::string> names;
  for (const program::Instruction& instruction : program.instructions)
    if (const auto* compute = std::get_if<Compute>(&instruction.what);
        compute != nullptr && op::is_rounding(compute->op))
      if (const program::Buffer& from = program.buffer(compute->slices[0].buffer);
          from.role == BufferRole::parameter)
        names.insert(from.name);
  return names;
}

std::set<std::string> names_of(const Program& program, BufferRole role) {
  std::set<std::string> names;
  for (const program::Buffer& buffer : program.buffers)
    if (buffer.role == role) names.insert(buffer.name);
  return names;
}

/// Names of the weights whose updates write their copies.
std::set<std::string> rounded_by_updates(const Program& program) {
  std::set<std::string> names;
  for (const program::Instruction& instruction : program.instructions) {
    const auto* compute = std::get_if<Compute>(&instruction.what);
    if (compute == nullptr) continue;
    const auto copy = op::operand_of(compute->op, op::State::rounded);
    if (!copy) continue;
    const std::size_t weight = op::operand_of(compute->op, op::State::weight).value();
    const std::string& name = program.buffer(compute->slices[weight].buffer).name;
    EXPECT_EQ(program.buffer(compute->slices[*copy].buffer).name, program::name_of_rounded(name));
    names.insert(name);
  }
  return names;
}

TEST(KeepRounded, the_update_writes_all_copies_and_no_step_casts_a_weight) {
  for (const plan::Grid& grid : {plan::Grid{}, plan::Grid{.x = 1, .y = 1, .z = 2, .data = 1},
                                 plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}}) {
    const Bundle bundle = bundle_of(setup_of(grid));
    const Program& train = bundle.at(op::ProgramKind::train);
    const auto parameters = names_of(train, BufferRole::parameter);
    EXPECT_EQ(rounded_by_updates(train), parameters);
    EXPECT_EQ(names_of(train, BufferRole::rounded).size(), parameters.size());
    EXPECT_TRUE(cast_weights(train).empty());
    EXPECT_TRUE(cast_weights(bundle.at(op::ProgramKind::evaluate)).empty());
    EXPECT_EQ(cast_weights(bundle.at(op::ProgramKind::init)), parameters);
  }
}

TEST(KeepRounded, a_weight_of_which_a_rank_updates_its_own_rows_is_cast_in_each_step) {
  const Program train =
      bundle_of(setup_of({.x = 1, .y = 1, .z = 1, .data = 2}, 0, true)).at(op::ProgramKind::train);
  const auto cast = cast_weights(train), written = rounded_by_updates(train);
  EXPECT_FALSE(cast.empty());
  std::set<std::string> both = cast;
  both.insert(written.begin(), written.end());
  EXPECT_EQ(both, names_of(train, BufferRole::parameter));
  EXPECT_EQ(both.size(), cast.size() + written.size());
}

TEST(KeepRounded, left_out_or_in_one_precision_nothing_is_kept) {
  const Bundle left_out = bundle_of(setup_of({}), {"keep_rounded"});
  GridSetup single = setup_of({});
  single.plan.compute = DType::f32;
  for (const Bundle& bundle : {left_out, bundle_of(single)}) {
    EXPECT_TRUE(names_of(bundle.at(op::ProgramKind::train), BufferRole::rounded).empty());
    EXPECT_TRUE(rounded_by_updates(bundle.at(op::ProgramKind::train)).empty());
  }
  EXPECT_EQ(cast_weights(left_out.at(op::ProgramKind::train)),
            names_of(left_out.at(op::ProgramKind::train), BufferRole::parameter));
}

TEST(KeepRounded, the_verifier_finds_no_fault) {
  for (const bool shard_states : {false, true})
    for (const std::int64_t layers : {0, 1})
      for (const plan::Grid& grid :
           {plan::Grid{.data = 2}, plan::Grid{.x = 1, .y = 1, .z = 2, .data = 2},
            plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}})
        for (const std::vector<std::string>& without :
             {std::vector<std::string>{}, std::vector<std::string>{"keep_rounded"}})
          for (const verify::Fault& fault :
               verify::verify(bundle_of(setup_of(grid, layers, shard_states), without)))
            ADD_FAILURE() << text_of(grid) << ": " << fault.rule << ": " << fault.message;
}

/// What is kept was there in most of a step before. What is new at most is the share of a weight
/// that had only to last until it was gathered.
TEST(KeepRounded, a_bundle_grows_by_no_more_than_the_copies) {
  for (const std::int64_t layers : {0, 1})
    for (const plan::Grid& grid :
         {plan::Grid{.data = 1}, plan::Grid{.x = 1, .y = 1, .z = 2, .data = 1},
          plan::Grid{.x = 2, .y = 2, .z = 2, .data = 1}}) {
      const Bundle kept = bundle_of(setup_of(grid, layers)),
                   cast = bundle_of(setup_of(grid, layers), {"keep_rounded"});
      const std::int64_t copies = kept.persistent_bytes - cast.persistent_bytes;
      std::printf("%s, recomputed layers %d: %d + %d bytes instead of %d + %d\n",
                  text_of(grid).c_str(), static_cast<int>(layers),
                  static_cast<int>(kept.persistent_bytes), static_cast<int>(kept.transient_bytes),
                  static_cast<int>(cast.persistent_bytes), static_cast<int>(cast.transient_bytes));
      EXPECT_GT(copies, 0);
      EXPECT_LE(kept.transient_bytes, cast.transient_bytes);
    }
}

/// The bundle with the update of a weight changed, and its faults by rule `rounded`.
std::size_t faults_after(const std::function<void(Bundle&)>& change) {
  Bundle bundle = bundle_of(setup_of({.data = 1}));
  change(bundle);
  std::size_t found = 0;
  for (const verify::Fault& fault : verify::verify(bundle))
    found += fault.rule == "rounded" ? 1 : 0;
  return found;
}

Program& program_of(Bundle& bundle, op::ProgramKind kind) {
  return *std::ranges::find(bundle.programs, kind, &Program::kind);
}

/// The updates that round, in order.
std::vector<Compute*> rounding_updates(Program& train) {
  std::vector<Compute*> list;
  for (program::Instruction& instruction : train.instructions)
    if (auto* compute = std::get_if<Compute>(&instruction.what);
        compute != nullptr && op::operand_of(compute->op, op::State::rounded))
      list.push_back(compute);
  return list;
}

TEST(KeepRounded, an_update_that_does_not_round_is_a_fault) {
  EXPECT_GT(faults_after([](Bundle& bundle) {
              Compute& update = *rounding_updates(program_of(bundle, op::ProgramKind::train))[3];
              const std::size_t copy = *op::operand_of(update.op, op::State::rounded);
              update.slices.erase(update.slices.begin() + static_cast<std::ptrdiff_t>(copy));
              update.op.get<op::AdamW>().rounds = false;
              update.dtype = DType::f32;
            }),
            0U);
}

TEST(KeepRounded, a_copy_of_another_weight_is_a_fault) {
  EXPECT_GT(faults_after([](Bundle& bundle) {
              Program& train = program_of(bundle, op::ProgramKind::train);
              const auto list = rounding_updates(train);
              const std::size_t copy = *op::operand_of(list[0]->op, op::State::rounded);
              for (std::size_t i = 0; i < list.size(); ++i)
                for (std::size_t j = i + 1; j < list.size(); ++j)
                  if (train.local_shape(list[i]->slices[copy].buffer) ==
                      train.local_shape(list[j]->slices[copy].buffer))
                    return std::swap(list[i]->slices[copy], list[j]->slices[copy]);
            }),
            0U);
}

TEST(KeepRounded, a_start_that_rounds_another_weight_is_a_fault) {
  EXPECT_GT(faults_after([](Bundle& bundle) {
              Program& init = program_of(bundle, op::ProgramKind::init);
              std::vector<Compute*> casts;
              for (program::Instruction& instruction : init.instructions)
                if (auto* compute = std::get_if<Compute>(&instruction.what);
                    compute != nullptr && op::is_rounding(compute->op))
                  casts.push_back(compute);
              for (std::size_t i = 0; i < casts.size(); ++i)
                for (std::size_t j = i + 1; j < casts.size(); ++j)
                  if (init.local_shape(casts[i]->slices[0].buffer) ==
                      init.local_shape(casts[j]->slices[0].buffer))
                    return std::swap(casts[i]->slices[0], casts[j]->slices[0]);
            }),
            0U);
}

}  // namespace
}  // namespace fourfold::compile::keep_rounded_test
