// Products and what follows them as one instruction: what is put together, and what is not.
#include "compile/fuse_products.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "unit/compile/fused_rows.h"
#include "verify/verify.h"

namespace fourfold::compile {
namespace {

machine::Target fusing_target() {
  machine::Target target = GridSetup::target();
  target.fusions = {
      "bias_gelu",     "add_layer_norm",     "add_layer_norm_gradient", "cross_entropy_both",
      "contract_bias", "contract_bias_gelu", "contract_gelu_gradient"};
  return target;
}

TEST(FuseProducts, joins_products_with_bias_gelu_and_their_gradients_in_a_serial_gpt) {
  for (const double dropout : {0.0, 0.1}) {
    const GridSetup setup = setup_of({}, dropout);
    const Program apart = train_program(setup, GridSetup::target()),
                  joined = train_program(setup, fusing_target());
    std::map<std::string, int> rows = count_rows(joined), before = count_rows(apart);
    const int micros = 2, blocks = 2, fused = 3;
    EXPECT_EQ(rows["contract_bias_gelu"], micros * blocks);
    EXPECT_EQ(rows["contract_gelu_gradient"], micros * blocks);
    EXPECT_EQ(rows["contract_bias"], micros * blocks);  // of the attention's input
    EXPECT_EQ(rows["contract"], before["contract"] - fused * micros * blocks);
    EXPECT_EQ(rows["bias_gelu"] + rows["gelu"] + rows["gelu_gradient"] + rows["add_bias"], 0);
    // The bias before a GELU is summed with it, the other three of a block by themselves.
    EXPECT_EQ(rows["bias_gradient"], before["bias_gradient"] - micros * blocks);
    EXPECT_EQ(meaning_of(joined, lasting_names(apart)), meaning_of(apart, lasting_names(apart)));
    EXPECT_EQ(program::total_flops(joined), program::total_flops(apart));
    EXPECT_LT(joined.buffers.size(), apart.buffers.size());
    EXPECT_EQ(joined.tasks.back().end, joined.instructions.size());
  }
}

TEST(FuseProducts, later_micro_batches_add_to_the_gradient_of_the_bias) {
  const Program joined = train_program(setup_of({}, 0), fusing_target());
  int overwrites = 0, adds = 0;
  for (const program::Instruction& instruction : joined.instructions)
    if (const auto* compute = std::get_if<Compute>(&instruction.what))
      if (const auto* row = std::get_if<op::ContractGeluGradient>(&compute->op)) {
        EXPECT_EQ(row->summed_dims, 2);
        ++(row->adds_bias_grad ? adds : overwrites);
      }
  EXPECT_EQ(overwrites, 2);
  EXPECT_EQ(adds, 2);
}

TEST(FuseProducts, leaves_apart_what_a_collective_separates) {
  std::map<std::string, int> whole =
      count_rows(train_program(setup_of({.x = 2}, 0), fusing_target()));
  EXPECT_GT(whole["contract_bias_gelu"], 0);  // columns are cut, and so is the bias
  std::map<std::string, int> partial =
      count_rows(train_program(setup_of({.y = 2}, 0), fusing_target()));
  EXPECT_EQ(partial["contract_bias_gelu"], 0);  // a sum over y stands between
  EXPECT_GT(partial["bias_gelu"], 0);
}

TEST(FuseProducts, the_verifier_finds_no_fault_in_what_is_joined) {
  for (const double dropout : {0.0, 0.1})
    for (const plan::Grid& grid : {plan::Grid{}, plan::Grid{.x = 2}, plan::Grid{.z = 2, .data = 2},
                                   plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}}) {
      const GridSetup setup = setup_of(grid, dropout);
      const graph::ModelGraphs model = setup.graphs();
      for (const verify::Fault& fault :
           verify::verify(compile(model, setup.solved(model), fusing_target()).classes[0]))
        ADD_FAILURE() << fault.rule << ": " << fault.message;
    }
}

TEST(FuseProducts, a_product_that_somebody_else_reads_stays_apart) {
  Program program = train_program(setup_of({}, 0), GridSetup::target());
  const auto count = [](const Program& of, const std::string& row) {
    return count_rows(fuse_products(of, fusing_target()))[row];
  };
  const int before = count(program, "contract_bias");
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* bias = std::get_if<Compute>(&program.instructions[i].what);
    if (bias == nullptr || !std::holds_alternative<op::AddBias>(bias->op)) continue;
    const Compute look{op::SquaredNorm{},
                       DType::f32,
                       {bias->slices[0], program.whole(*program.find_buffer("updates"))},
                       {},
                       "test"};
    program.instructions.insert(program.instructions.begin() + static_cast<std::ptrdiff_t>(i),
                                {program.instructions[i].stream, look});
    for (program::Task& task : program.tasks) {
      if (task.begin > i) ++task.begin;
      if (task.end > i) ++task.end;
    }
    break;
  }
  EXPECT_EQ(count(program, "contract_bias"), before - 1);
}

TEST(FuseProducts, makes_only_the_rows_that_the_target_has) {
  const Program program = train_program(setup_of({}, 0), GridSetup::target());
  EXPECT_EQ(fuse_products(program, GridSetup::target()), program);
  machine::Target target = GridSetup::target();
  target.fusions = {"contract_gelu_gradient"};
  std::map<std::string, int> rows = count_rows(fuse_products(program, target));
  EXPECT_GT(rows["contract_gelu_gradient"], 0);
  EXPECT_EQ(rows["contract_bias"] + rows["contract_bias_gelu"], 0);
}

}  // namespace
}  // namespace fourfold::compile
