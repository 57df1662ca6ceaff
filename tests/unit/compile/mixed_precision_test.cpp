// Where weights are rounded in a bf16 program, what stays float32, with a residual stream in bf16
// and in float32, and that no other program has anything of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "program/text.h"
#include "unit/compile/grid_setup.h"
#include "verify/verify.h"

namespace fourfold::compile {
namespace {

using program::BufferRole;
using program::Compute;
using program::Program;
using program::Slice;

GridSetup setup_of(DType compute, const plan::Grid& grid) {
  GridSetup setup;
  setup.plan.compute = compute;
  setup.set_grid(grid, 3);
  return setup;
}

std::vector<plan::Grid> some_grids() {
  return {{},
          {.x = 1, .y = 1, .z = 1, .data = 2},
          {.x = 1, .y = 1, .z = 2, .data = 1},
          {.x = 2, .y = 2, .z = 1, .data = 1},
          {.x = 2, .y = 2, .z = 2, .data = 2}};
}

std::vector<GridSetup> some_setups() {
  std::vector<GridSetup> setups;
  for (plan::Grid grid : some_grids()) {
    if (!grid.data) grid.data = 1;
    for (const std::int64_t blocks : {0, 1}) {
      setups.push_back(setup_of(DType::bf16, grid));
      setups.back().plan.checkpointing.layers = blocks;
      setups.back().plan.shard_states = blocks == 1 && grid.data > 1;
      setups.back().gpt.tied_head = blocks == 0;
    }
  }
  // The same with a residual stream in float32.
  for (std::size_t i = 0, narrow = setups.size(); i < narrow; ++i) {
    setups.push_back(setups[i]);
    setups.back().gpt.wide_residual = true;
    setups.back().gpt.dropout = i % 2 == 0 ? 0.1 : 0;
  }
  return setups;
}

/// True of the residual stream and of its gradient, by the name that the model gave.
bool is_of_stream(const std::string& name) {
  const std::string value = name.substr(0, name.find_first_of("/#"));
  return value == "positions" || value == "embedding.dropout" || value == "last" ||
         value.ends_with(".residual");
}

const program::Buffer& buffer_of(const Program& program, const Slice& slice) {
  return program.buffer(slice.buffer);
}

/// The parameter that a slice is, or is made from.
const program::Buffer* parameter_of(const Program& program, const Slice& slice) {
  const std::string& name = buffer_of(program, slice).name;
  const auto id = program.find_buffer(name.substr(0, name.find('/')));
  return id && program.buffer(*id).role == BufferRole::parameter ? &program.buffer(*id) : nullptr;
}

/// By the cast of a step or, where their copies are kept, by the update.
TEST(MixedPrecision, weights_are_rounded_once_in_a_step_whole_and_before_they_move) {
  for (const GridSetup& setup : some_setups()) {
    SCOPED_TRACE(text_of(setup.plan.grid));
    const Program train = setup.train();
    std::set<std::string> rounded, parameters;
    for (const program::Buffer& buffer : train.buffers)
      if (buffer.role == BufferRole::parameter) parameters.insert(buffer.name);
    for (const program::Instruction& instruction : train.instructions) {
      if (const auto* gather = std::get_if<program::AllGather>(&instruction.what)) {
        program::for_each_tensor(*gather, [&](const Slice& from, const Slice& to) {
          const bool is_in_place = from.buffer == to.buffer;  // of updated rows
          if (parameter_of(train, from) != nullptr && !is_in_place) {
            EXPECT_EQ(buffer_of(train, from).dtype, DType::bf16);
          }
        });
      }
      const auto* compute = std::get_if<Compute>(&instruction.what);
      if (compute == nullptr) continue;
      const auto kept = op::operand_of(compute->op, op::State::rounded);
      if (!kept && !compute->op.is<op::Cast>()) continue;
      const std::size_t weight =
          kept ? op::operand_of(compute->op, op::State::weight).value() : std::size_t{0};
      const program::Buffer &from = buffer_of(train, compute->slices[weight]),
                            &to = buffer_of(train, compute->slices[kept.value_or(1)]);
      EXPECT_EQ(from.dtype, DType::f32);
      EXPECT_EQ(to.dtype, DType::bf16);
      EXPECT_EQ(from.sharding, to.sharding);
      if (setup.gpt.wide_residual && is_of_stream(from.name)) continue;
      EXPECT_EQ(from.role, BufferRole::parameter);
      EXPECT_TRUE(rounded.insert(from.name).second) << from.name << " is rounded twice";
    }
    EXPECT_EQ(rounded, parameters);
  }
}

TEST(MixedPrecision, weights_moments_and_all_sums_of_gradients_are_float32) {
  for (const GridSetup& setup : some_setups()) {
    SCOPED_TRACE(text_of(setup.plan.grid));
    const Program train = setup.train();
    std::size_t kept = 0, updates = 0;
    for (const program::Buffer& buffer : train.buffers) {
      const bool is_kept = buffer.role == BufferRole::parameter ||
                           buffer.role == BufferRole::moment ||
                           buffer.name.starts_with("gradient/");
      if (!is_kept) continue;
      EXPECT_EQ(buffer.dtype, DType::f32) << buffer.name;
      ++kept;
    }
    EXPECT_GT(kept, 0U);
    for (const program::Instruction& instruction : train.instructions) {
      const auto* compute = std::get_if<Compute>(&instruction.what);
      if (compute == nullptr || !compute->op.is<op::AdamW>()) continue;
      const auto weight = op::operand_of(compute->op, op::State::weight);
      EXPECT_EQ(buffer_of(train, compute->slices[*weight]).dtype, DType::f32);
      EXPECT_EQ(buffer_of(train, compute->slices[0]).dtype, DType::f32) << "the gradient";
      ++updates;
    }
    EXPECT_GT(updates, 0U);
  }
}

/// A product is left unrounded where it is a gradient of a weight, and nowhere else.
TEST(MixedPrecision, only_gradients_of_weights_are_left_unrounded) {
  for (const GridSetup& setup : some_setups()) {
    const Program train = setup.train();
    for (const program::Instruction& instruction : train.instructions) {
      const auto* compute = std::get_if<Compute>(&instruction.what);
      const auto* contract = compute == nullptr ? nullptr : compute->op.get_if<op::Contract>();
      if (contract == nullptr) continue;
      const program::Buffer& out = buffer_of(train, compute->slices[2]);
      EXPECT_EQ(contract->unrounded, out.name.starts_with("gradient/")) << out.name;
    }
  }
}

TEST(MixedPrecision, the_verifier_finds_no_fault_and_programs_read_back) {
  for (const GridSetup& setup : some_setups()) {
    SCOPED_TRACE(text_of(setup.plan.grid));
    const program::Bundle bundle = setup.bundle();
    for (const verify::Fault& fault : verify::verify(bundle))
      ADD_FAILURE() << fault.rule << ": " << fault.message;
    const std::string text = program::to_text(bundle);
    EXPECT_EQ(program::parse_bundle(text, "bf16"), bundle);
    EXPECT_NE(text.find("cast"), text.npos);
  }
}

/// The bytes that a rank gives to the collectives of a step, of the tensors that are `counted`.
template <class Counted>
std::int64_t moved_bytes(const Program& program, const Counted& counted) {
  std::int64_t total = 0;
  const auto add = [&](const Slice& from, const Slice&) {
    if (counted(buffer_of(program, from))) total += from.rows * from.row_bytes;
  };
  for (const program::Instruction& instruction : program.instructions) {
    std::visit(
        [&]<class What>(const What& what) {
          if constexpr (requires { what.group; }) program::for_each_tensor(what, add);
        },
        instruction.what);
  }
  return total;
}

/// What a wide residual stream changes: its values and their gradients have twice the bytes, in
/// memory and on the way; what is new are the roundings of a gradient that enters a branch.
TEST(MixedPrecision, a_wide_residual_stream_doubles_its_own_bytes_and_no_others) {
  for (const GridSetup& setup : some_setups()) {
    if (!setup.gpt.wide_residual) continue;
    SCOPED_TRACE(text_of(setup.plan.grid));
    GridSetup narrow_setup = setup;
    narrow_setup.gpt.wide_residual = false;
    const Program wide = setup.train(), narrow = narrow_setup.train();
    std::size_t of_stream = 0, roundings = 0;
    for (const program::Buffer& buffer : wide.buffers) {
      const auto id = narrow.find_buffer(buffer.name);
      if (!id) {
        EXPECT_EQ(buffer.dtype, DType::bf16) << buffer.name;
        EXPECT_NE(buffer.name.find("/grad"), std::string::npos) << buffer.name;
        ++roundings;
        continue;
      }
      const program::Buffer& before = narrow.buffer(*id);
      if (is_of_stream(buffer.name)) {
        ++of_stream;
        EXPECT_EQ(before.dtype, DType::bf16) << buffer.name;
        EXPECT_EQ(buffer.dtype, DType::f32) << buffer.name;
        EXPECT_EQ(buffer.size_bytes, 2 * before.size_bytes) << buffer.name;
      } else {
        EXPECT_EQ(buffer.dtype, before.dtype) << buffer.name;
        EXPECT_EQ(buffer.size_bytes, before.size_bytes) << buffer.name;
      }
    }
    // Forward: the positions and two sums of each block; as many gradients at least.
    const auto values = static_cast<std::size_t>(2 * setup.gpt.num_layers + 1);
    EXPECT_GE(of_stream, 2 * values);
    EXPECT_GE(roundings, values - 1);
    const auto any = [](const program::Buffer&) { return true; };
    const auto in_stream = [](const program::Buffer& buffer) {
      return is_of_stream(buffer.name) && buffer.dtype == DType::f32;
    };
    EXPECT_EQ(moved_bytes(wide, any), moved_bytes(narrow, any) + moved_bytes(wide, in_stream) / 2);
  }
}

TEST(MixedPrecision, products_of_a_wide_residual_stream_read_and_write_bf16) {
  for (const GridSetup& setup : some_setups()) {
    if (!setup.gpt.wide_residual) continue;
    const Program train = setup.train();
    std::size_t products = 0, norms = 0;
    for (const program::Instruction& instruction : train.instructions) {
      const auto* compute = std::get_if<Compute>(&instruction.what);
      if (compute == nullptr) continue;
      const auto dtype_of = [&](std::size_t i) {
        return buffer_of(train, compute->slices[i]).dtype;
      };
      if (const auto* contract = compute->op.get_if<op::Contract>()) {
        ++products;
        EXPECT_EQ(dtype_of(0), DType::bf16);
        EXPECT_EQ(dtype_of(1), DType::bf16);
        EXPECT_EQ(dtype_of(2), contract->unrounded ? DType::f32 : DType::bf16);
      }
      if (op::name(compute->op).starts_with("layer_norm")) {
        ++norms;
        EXPECT_EQ(dtype_of(0), DType::f32) << "x of a norm";
      }
    }
    EXPECT_GT(products, 0U);
    EXPECT_GT(norms, 0U);
    EXPECT_NE(program::to_text(setup.bundle()).find("add_rounded"), std::string::npos);
  }
}

TEST(MixedPrecision, one_precision_has_neither_casts_nor_unrounded_products) {
  for (const DType compute : {DType::f32, DType::f64}) {
    const std::string text =
        program::to_text(setup_of(compute, {.x = 2, .y = 1, .z = 2, .data = 2}).bundle());
    EXPECT_EQ(text.find("cast"), text.npos);
    EXPECT_EQ(text.find("unrounded"), text.npos);
  }
}

}  // namespace
}  // namespace fourfold::compile
