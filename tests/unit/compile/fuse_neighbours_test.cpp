// Rows that read the same elements as one instruction: what is put together, and what is not.
#include "compile/fuse_neighbours.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "kernels/fused_rows.h"
#include "unit/compile/fused_rows.h"
#include "unit/compile/program_edits.h"
#include "verify/verify.h"

namespace fourfold::compile::fuse_neighbours_test {
namespace {

machine::Target fusing_target() {
  machine::Target target = GridSetup::target();
  target.fusions.assign(kernels::row_chains.begin(), kernels::row_chains.end());
  return target;
}

/// The chains that end in a norm, and those that begin with its gradient.
int norms(const std::map<std::string, int>& rows) {
  int count = 0;
  for (const auto& [name, times] : rows) count += name.ends_with("add&layer_norm") ? times : 0;
  return count;
}
int norm_gradients(const std::map<std::string, int>& rows) {
  int count = 0;
  for (const auto& [name, times] : rows)
    count += name.starts_with("layer_norm_gradient+") || name.starts_with("layer_norm_gradient&")
                 ? times
                 : 0;
  return count;
}

TEST(FuseNeighbours, joins_bias_and_gelu_sums_and_norms_and_the_loss_of_a_serial_gpt) {
  for (const double dropout : {0.0, 0.1}) {
    const GridSetup setup = setup_of({}, dropout);
    const Program apart = train_program(setup, GridSetup::target()),
                  joined = train_program(setup, fusing_target());
    std::map<std::string, int> rows = count_rows(joined);
    const int micros = 2, blocks = 2;
    EXPECT_EQ(rows["add_bias&gelu"], micros * blocks);
    EXPECT_EQ(rows["gelu"], 0);
    EXPECT_EQ(norms(rows), micros * 2 * blocks);
    EXPECT_EQ(rows["layer_norm"], micros);  // the first: no sum stands before it
    EXPECT_EQ(rows["add"], 0);
    EXPECT_EQ(rows["cross_entropy&cross_entropy_gradient"], micros);
    EXPECT_EQ(rows["cross_entropy"] + rows["cross_entropy_gradient"], 0);
    EXPECT_EQ(rows["dropout"], dropout > 0 ? micros : 0);  // of the embedding, forward
    // The last norm has no second gradient to add, so without dropout it stays alone.
    EXPECT_EQ(rows["layer_norm_gradient"], dropout > 0 ? 0 : micros);
    EXPECT_EQ(norm_gradients(rows), micros * (2 * blocks + (dropout > 0 ? 1 : 0)));
    EXPECT_EQ(rows["add_bias"], micros * blocks);  // of the attention's input
    EXPECT_EQ(meaning_of(joined, lasting_names(apart)), meaning_of(apart, lasting_names(apart)));
    EXPECT_EQ(program::total_flops(joined), program::total_flops(apart));
    EXPECT_LE(joined.transient_bytes, apart.transient_bytes);
    EXPECT_LT(joined.buffers.size(), apart.buffers.size());
    EXPECT_EQ(joined.tasks.size(), apart.tasks.size());
    EXPECT_EQ(joined.tasks.back().end, joined.instructions.size());
  }
}

/// The chains of all gradients of a norm that end so.
int sums_of_norms(const std::map<std::string, int>& rows, std::string_view end = "") {
  int count = 0;
  for (const auto& [name, times] : rows)
    count += name.starts_with("layer_norm_weight_gradient|") && name.ends_with(end) ? times : 0;
  return count;
}

machine::Target summing_target() {
  machine::Target target = fusing_target();
  target.fusions.insert(target.fusions.begin(), kernels::norm_gradient_chains.begin(),
                        kernels::norm_gradient_chains.end());
  return target;
}

TEST(FuseNeighbours, joins_all_gradients_of_a_norm_and_that_of_the_bias_before_it) {
  for (const double dropout : {0.0, 0.1}) {
    const GridSetup setup = setup_of({}, dropout);
    const Program apart = train_program(setup, GridSetup::target()),
                  joined = train_program(setup, summing_target());
    std::map<std::string, int> rows = count_rows(joined), before = count_rows(apart);
    const int micros = 2, blocks = 2;
    const int with_bias = sums_of_norms(rows, "&bias_gradient");
    EXPECT_EQ(sums_of_norms(rows), micros * (2 * blocks + 1));
    EXPECT_EQ(with_bias, micros * 2 * blocks);  // the branch into the first norm is the embedding
    EXPECT_EQ(rows["layer_norm_weight_gradient"] + norm_gradients(rows), 0);
    EXPECT_EQ(rows["bias_gradient"], before["bias_gradient"] - with_bias);
    EXPECT_EQ(meaning_of(joined, lasting_names(apart)), meaning_of(apart, lasting_names(apart)));
    EXPECT_EQ(program::total_flops(joined), program::total_flops(apart));
  }
}

TEST(FuseNeighbours, leaves_apart_what_a_collective_separates) {
  const Program joined =
      train_program(setup_of({.x = 2, .y = 2, .z = 1, .data = 1}, 0.1), fusing_target());
  std::map<std::string, int> rows = count_rows(joined);
  EXPECT_EQ(norms(rows) + norm_gradients(rows), 0);            // norms are in parts
  EXPECT_EQ(rows["cross_entropy&cross_entropy_gradient"], 0);  // the vocabulary is cut
  EXPECT_GT(rows["add_bias&gelu"], 0);                         // after the sum over y
}

void expect_no_fault(const machine::Target& target) {
  for (const double dropout : {0.0, 0.1})
    for (const plan::Grid& grid : {plan::Grid{}, plan::Grid{.x = 2}, plan::Grid{.z = 2, .data = 2},
                                   plan::Grid{.x = 2, .y = 2, .z = 2, .data = 2}}) {
      const GridSetup setup = setup_of(grid, dropout);
      const graph::ModelGraphs model = setup.graphs();
      for (const verify::Fault& fault :
           verify::verify(compile(model, setup.solved(model), target).classes[0]))
        ADD_FAILURE() << fault.rule << ": " << fault.message;
    }
}

TEST(FuseNeighbours, the_verifier_finds_no_fault_in_what_is_joined) {
  expect_no_fault(fusing_target());
}

TEST(FuseNeighbours, the_verifier_finds_no_fault_where_gradients_of_norms_are_joined) {
  expect_no_fault(summing_target());
}

/// A program whose rows are all apart, as the pass meets it.
Program apart() {
  return train_program(setup_of({}, 0.1), GridSetup::target());
}

TEST(FuseNeighbours, nothing_moves_past_what_writes_its_operand) {
  Program program = apart();
  const std::size_t gelu = places_of<op::Gelu>(program).at(0);
  const int before = count_rows(fuse_neighbours(program, fusing_target()))["add_bias&gelu"];
  const program::Slice bias = std::get<Compute>(program.instructions[gelu - 1].what).slices[1];
  const program::Slice y = std::get<Compute>(program.instructions[gelu].what).slices[1];
  insert_fill(program, gelu, bias);  // the sum may not move down past it
  insert_fill(program, gelu, y);     // nor the GELU up past this
  EXPECT_EQ(count_rows(fuse_neighbours(program, fusing_target()))["add_bias&gelu"], before - 1);
}

TEST(FuseNeighbours, what_reads_the_same_stays_apart_where_it_is_written_between) {
  Program program = apart();
  const auto count = [](const Program& of) {
    return sums_of_norms(count_rows(fuse_neighbours(of, summing_target())));
  };
  const int before = count(program);
  const std::size_t weights = places_of<op::LayerNormWeightGradient>(program).at(0);
  const program::Slice mean = std::get<Compute>(program.instructions[weights].what).slices[1];
  insert_fill(program, weights + 1, mean);
  EXPECT_EQ(count(program), before - 1);
}

TEST(FuseNeighbours, a_branch_that_somebody_else_reads_is_still_written) {
  Program program = apart();
  // The first sum's branch comes from a dropout; a second reader of what it gave keeps it.
  const std::size_t add = places_of<op::Add>(program).at(0);
  const program::Slice branch = std::get<Compute>(program.instructions[add].what).slices[1];
  const std::size_t update = program.instructions.size() - 1;
  Compute look{op::SquaredNorm{}, DType::f32, {branch, {}}, {}, "test"};
  look.slices[1] = program.whole(*program.find_buffer("updates"));
  insert(program, add + 1, look);
  ASSERT_LT(add, update);
  const Program joined = fuse_neighbours(program, fusing_target());
  EXPECT_EQ(count_rows(joined)["dropout"],
            count_rows(fuse_neighbours(apart(), fusing_target()))["dropout"] + 1);
  EXPECT_TRUE(joined.find_buffer(program.buffer(branch.buffer).name).has_value());
}

TEST(FuseNeighbours, makes_only_the_rows_that_the_target_has) {
  const Program program = apart();
  EXPECT_EQ(fuse_neighbours(program, GridSetup::target()), program);
  machine::Target target = GridSetup::target();
  target.fusions = {"add_bias&gelu"};
  std::map<std::string, int> rows = count_rows(fuse_neighbours(program, target));
  EXPECT_GT(rows["add_bias&gelu"], 0);
  EXPECT_EQ(norms(rows) + rows["cross_entropy&cross_entropy_gradient"], 0);
}

// --- products and what follows them

machine::Target product_target() {
  machine::Target target = fusing_target();
  target.fusions.insert(
      target.fusions.begin(),
      {"contract+add_bias&gelu", "contract+gelu_gradient&bias_gradient", "contract+gelu_gradient"});
  target.fusions.emplace_back("contract+add_bias");
  return target;
}

TEST(FuseNeighboursOfProducts, joins_products_with_bias_gelu_and_their_gradients_in_a_serial_gpt) {
  for (const double dropout : {0.0, 0.1}) {
    const GridSetup setup = setup_of({}, dropout);
    const Program apart = train_program(setup, GridSetup::target()),
                  joined = train_program(setup, product_target());
    std::map<std::string, int> rows = count_rows(joined), before = count_rows(apart);
    const int micros = 2, blocks = 2, fused = 3;
    EXPECT_EQ(rows["contract+add_bias&gelu"], micros * blocks);
    EXPECT_EQ(rows["contract+gelu_gradient&bias_gradient"], micros * blocks);
    EXPECT_EQ(rows["contract+add_bias"], micros * blocks);  // of the attention's input
    EXPECT_EQ(rows["contract"], before["contract"] - fused * micros * blocks);
    EXPECT_EQ(rows["add_bias&gelu"] + rows["gelu"] + rows["gelu_gradient"] + rows["add_bias"], 0);
    // The bias before a GELU is summed with it, the other three of a block by themselves.
    EXPECT_EQ(rows["bias_gradient"], before["bias_gradient"] - micros * blocks);
    EXPECT_EQ(meaning_of(joined, lasting_names(apart)), meaning_of(apart, lasting_names(apart)));
    EXPECT_EQ(program::total_flops(joined), program::total_flops(apart));
    EXPECT_LT(joined.buffers.size(), apart.buffers.size());
    EXPECT_EQ(joined.tasks.back().end, joined.instructions.size());
  }
}

TEST(FuseNeighboursOfProducts, later_micro_batches_add_to_the_gradient_of_the_bias) {
  const Program joined = train_program(setup_of({}, 0), product_target());
  int overwrites = 0, adds = 0;
  for (const program::Instruction& instruction : joined.instructions)
    if (const auto* compute = std::get_if<Compute>(&instruction.what))
      if (op::name(compute->op) == "contract+gelu_gradient&bias_gradient") {
        const std::vector<op::Piece> pieces = op::pieces(compute->op);
        const auto& sums = pieces.back().op.get<op::BiasGradient>();
        EXPECT_EQ(sums.summed_dims, 2);
        ++(sums.accumulate ? adds : overwrites);
      }
  EXPECT_EQ(overwrites, 2);
  EXPECT_EQ(adds, 2);
}

TEST(FuseNeighboursOfProducts, leaves_apart_what_a_collective_separates) {
  std::map<std::string, int> whole =
      count_rows(train_program(setup_of({.x = 2}, 0), product_target()));
  EXPECT_GT(whole["contract+add_bias&gelu"], 0);  // columns are cut, and so is the bias
  std::map<std::string, int> partial =
      count_rows(train_program(setup_of({.y = 2}, 0), product_target()));
  EXPECT_EQ(partial["contract+add_bias&gelu"], 0);  // a sum over y stands between
  EXPECT_GT(partial["add_bias&gelu"], 0);
}

TEST(FuseNeighboursOfProducts, the_verifier_finds_no_fault_in_what_is_joined) {
  expect_no_fault(product_target());
}

TEST(FuseNeighboursOfProducts, a_product_that_somebody_else_reads_stays_apart) {
  Program program = train_program(setup_of({}, 0), GridSetup::target());
  const auto count = [](const Program& of, const std::string& row) {
    return count_rows(fuse_neighbours(of, product_target()))[row];
  };
  const int before = count(program, "contract+add_bias");
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const auto* bias = std::get_if<Compute>(&program.instructions[i].what);
    if (bias == nullptr || !bias->op.is<op::AddBias>()) continue;
    const Compute look{op::SquaredNorm{},
                       DType::f32,
                       {bias->slices[0], program.whole(*program.find_buffer("updates"))},
                       {},
                       "test"};
    insert(program, i, look);
    break;
  }
  EXPECT_EQ(count(program, "contract+add_bias"), before - 1);
}

TEST(FuseNeighboursOfProducts, makes_only_the_rows_that_the_target_has) {
  const Program program = train_program(setup_of({}, 0), GridSetup::target());
  EXPECT_EQ(fuse_neighbours(program, GridSetup::target()), program);
  machine::Target target = GridSetup::target();
  target.fusions = {"contract+gelu_gradient"};
  std::map<std::string, int> rows = count_rows(fuse_neighbours(program, target));
  EXPECT_GT(rows["contract+gelu_gradient"], 0);
  EXPECT_EQ(rows["contract+add_bias"] + rows["contract+add_bias&gelu"], 0);
}

}  // namespace
}  // namespace fourfold::compile::fuse_neighbours_test
