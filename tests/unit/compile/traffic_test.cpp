// What a rank sends in a training step of a GPT, against formulas: those of AxoNN (Singh et al.
// 2024, eqs 4 to 8) and ATP (Cheng et al. 2023, eq 2) for the linears, derived ones for everything
// else. All in whole numbers, without tolerance.
//
// h hidden, f ffn width, L layers; k rows and n columns of a matrix; t tokens of a micro-batch on
// one rank.
#include "program/traffic.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "unit/compile/grid_setup.h"
#include "unit/compile/text_traffic_forms.h"
#include "unit/compile/traffic_forms.h"

namespace fourfold::compile {
namespace {

/// Hidden 144, 36 heads, an odd vocabulary; degrees up to 4 divide all that they cut.
GridSetup setup_for(const plan::Grid& grid) {
  GridSetup setup;
  setup.gpt = {.num_layers = 2,
               .num_attention_heads = 36,
               .hidden_size = 144,
               .ffn_hidden_size = 576,
               .max_position_embeddings = 12,
               .vocab_size = 101};
  setup.plan.seq_length = 12;
  setup.plan.micro_batch_size = 2;
  setup.set_grid(grid, 3);
  return setup;
}

/// 36 heads are shared out over x and y.
std::vector<plan::Grid> test_grids() {
  std::vector<plan::Grid> grids = grids_of({1, 2, 3, 4}, 36);
  std::erase_if(grids, [](const plan::Grid& g) { return 36 % (g.x * g.y) != 0; });
  return grids;
}

// --- AxoNN

/// Which linear a tensor is sent for: its weight, its output, the gradient of its input. Queries,
/// keys and values, the core and what follows it count together, because the core is shared out.
const std::map<std::string, std::string> linear_of = {
    {"attn.qkv.weight", "attention"}, {"attn.qkv", "attention"},
    {"ln1/grad", "attention"},        {"attn.qkv.biased/grad", "attention"},
    {"attn.core", "attention"},       {"attn.core/grad", "attention"},
    {"attn.out.weight", "attention"}, {"attn.out", "attention"},
    {"mlp.up.weight", "mlp.up"},      {"mlp.up", "mlp.up"},
    {"ln2/grad", "mlp.up"},           {"mlp.down.weight", "mlp.down"},
    {"mlp.down", "mlp.down"},         {"mlp.gelu/grad", "mlp.down"}};

std::map<std::string, ByAxis> sent_for_linears(const program::Program& program) {
  return sent_for_layers(program, linear_of);
}

/// AxoNN, eqs 4 to 8, for one layer with a matrix of k rows and n columns, in elements; `x` and `y`
/// change places where it is transposed. Weights are gathered and reduce-scattered in every
/// micro-batch, and all-reduced over data once.
void add_axonn(const Sizes& s, std::int64_t k, std::int64_t n, bool transposed, ByAxis& total) {
  const std::string x = transposed ? "y" : "x", y = transposed ? "x" : "y";
  const std::int64_t gx = s.ranks.at(x), gy = s.ranks.at(y), gz = s.ranks.at("z"),
                     gdata = s.ranks.at("data");
  const std::int64_t m = s.t * gz;  // tokens of a micro-batch / Gdata
  const auto add = [&](const std::string& axis, std::int64_t times, std::int64_t numerator,
                       std::int64_t denominator) {
    const Parts sent = exact(parts_of_a_byte * times * numerator * s.element, denominator);
    if (sent != 0) total[axis] += sent;
  };
  add("z", s.micros, (gz - 1) * k * n, gx * gy * gz);             // eq 4, all-gather
  add("z", s.micros, (gz - 1) * k * n, gz * gx * gy);             // eq 5, reduce-scatter
  add(y, s.micros, 2 * (gy - 1) * m * n, gy * gz * gx);           // eq 6, all-reduce
  add(x, s.micros, 2 * (gx - 1) * m * k, gx * gz * gy);           // eq 7, all-reduce
  add("data", 1, 2 * (gdata - 1) * k * n, gdata * gx * gy * gz);  // eq 8, all-reduce
}

TEST(Axonn, every_linear_sends_what_equations_4_to_8_say_on_every_grid) {
  const auto grids = test_grids();
  EXPECT_GE(grids.size(), 20U);
  std::printf("AxoNN, equations 4 to 8: %zu grids\n", grids.size());
  for (const plan::Grid& grid : grids) {
    SCOPED_TRACE(text_of(grid));
    const GridSetup setup = setup_for(grid);
    const Sizes s(setup);
    std::map<std::string, ByAxis> expected;
    for (std::int64_t layer = 0; layer < s.layers; ++layer) {
      add_axonn(s, s.h, 3 * s.h, false, expected["attention"]);
      add_axonn(s, s.h, s.h, true, expected["attention"]);
      add_axonn(s, s.h, s.f, false, expected["mlp.up"]);
      add_axonn(s, s.f, s.h, true, expected["mlp.down"]);
    }
    std::erase_if(expected, [](const auto& entry) { return entry.second.empty(); });
    EXPECT_EQ(sent_for_linears(setup.train()), expected);
  }
}

// The traffic of a layer, in units of 2 (d - 1)/d elements for each of b s tokens: the attention's
// all-reduces of 3h + h over d2 are halved into a reduce-scatter and an all-gather each. ATP's eq 2
// prints 14h
// + 4h: it all-reduces and gathers as well, 2h more.
TEST(Atp, a_layer_sends_12h_over_d1_along_the_second_dim_and_4h_over_d2_along_the_first) {
  for (const auto& [d1, d2] :
       {std::pair{1, 4}, {2, 2}, {4, 1}, {2, 4}, {4, 2}, {3, 2}, {2, 3}, {3, 3}, {3, 4}, {4, 3}}) {
    SCOPED_TRACE(format("DeviceMesh({}, {})", d1, d2));
    GridSetup setup =
        setup_for({.x = d1, .y = d2, .z = 1, .data = 1, .order = {"y", "x", "z", "data"}});
    const Sizes s(setup);
    std::map<std::string, ByAxis> sent = sent_for_linears(setup.train());
    const auto units = [&](const std::string& axis, const std::vector<std::string>& linears) {
      Parts total = 0;
      for (const std::string& linear : linears) total += sent[linear][axis];
      const std::int64_t n = s.ranks.at(axis), others = d1 * d2 / n;
      if (n == 1) return total;
      // times d / (2 (d - 1)), and times the degree that divides it
      return exact(total * n * others,
                   2 * (n - 1) * parts_of_a_byte * s.layers * s.micros * s.t * s.element);
    };
    EXPECT_EQ(units("y", {"attention"}), d2 == 1 ? 0 : 4 * s.h);
    EXPECT_EQ(units("y", {"attention", "mlp.up", "mlp.down"}), d2 == 1 ? 0 : 12 * s.h);
    EXPECT_EQ(units("x", {"attention", "mlp.up", "mlp.down"}), d1 == 1 ? 0 : 4 * s.h);
  }
}

// --- everything that is sent

class Formulas : public TextFormulas {
 public:
  explicit Formulas(const GridSetup& setup) : TextFormulas(setup) {
    // A table of positions, which x does not cut.
    weight("embedding", setup.gpt.max_position_embeddings * s_.h, g("y"), 1);
    linears();
    norms();
    biases();
    update();
  }

 private:
  void linears() {
    const std::int64_t l = s_.layers, h = s_.h, f = s_.f, x = g("x"), y = g("y");
    activation("linear", "y", reduce_scatter, forward_ * l, 3 * h, x);  // queries, keys, values
    activation("attention", "y", all_gather, forward_ * l, h, x);       // output of the core
    activation("linear", "x", all_reduce, forward_ * l, h, y);          // of attention's output
    activation("linear", "y", all_reduce, forward_ * l, f, x);          // up
    activation("linear", "x", all_reduce, down_products(), h, y);       // down
    activation("linear", "y", all_reduce, l, f, x);                     // gradient of down's input
    activation("linear", "x", all_reduce, l, h, y);                     // of up's
    activation("linear", "y", reduce_scatter, l, h, x);     // of that of attention's output
    activation("attention", "y", all_gather, l, 3 * h, x);  // of the core's input
    activation("linear", "x", all_reduce, l, h, y);         // of that of queries, keys, values
    weight("linear", l * (4 * h * h + 2 * h * f), x * y, forward_);
  }

  /// Two numbers a token: mean and squared distances of each of y parts are gathered, sums of the
  /// gradient all-reduced. The last norm is of no block.
  void norms() {
    const std::int64_t l = s_.layers, y = g("y");
    add("norm", "y", all_gather, (forward_ * 2 * l + 1) * s_.micros, y * 2 * s_.t, 1,
        s_.accumulate);
    add("norm", "y", all_reduce, (2 * l + 1) * s_.micros, 2 * s_.t, 1, s_.accumulate);
    for (std::int64_t i = 0; i < (setup_.gpt.bias ? 2 : 1) * (2 * l + 1); ++i)
      small("norm", s_.h, {"y"});
  }

  void biases() {
    if (!setup_.gpt.bias) return;
    for (std::int64_t layer = 0; layer < s_.layers; ++layer) {
      small("bias", 3 * s_.h, {"x", "y"});
      small("bias", s_.h, {"y"});  // attention's output
      small("bias", s_.f, {"x"});
      small("bias", s_.h, {"y"});
    }
  }

  /// Squared norm and number of elements that are not finite: one sum for the tensors cut on x, y
  /// and z, another for positions, which x does not cut; none for what all ranks hold. The votes
  /// are summed up over all ranks.
  void update() {
    sum("update", {"data", "z", "y", "x"}, 1, 1, 1, 8);
    sum("update", {"z", "y", "x"}, 1, 2, 1, 8);
    if (g("x") > 1) sum("update", {"z", "y"}, 1, 2, 1, 8);
  }
};

void expect_formulas(const GridSetup& setup) {
  SCOPED_TRACE(text_of(setup.plan.grid));
  EXPECT_EQ(sent_by_class(setup.train()), Formulas(setup).result);
}

TEST(Traffic, of_every_class_follows_its_formula_on_every_grid) {
  const auto grids = test_grids();
  for (const plan::Grid& grid : grids) expect_formulas(setup_for(grid));
  std::printf("formulas of all classes: %zu grids\n", grids.size());
}

TEST(Traffic, follows_the_formulas_without_biases_with_an_untied_head_and_in_other_precisions) {
  for (const plan::Grid& grid : grids_of({1, 2, 3}, 24)) {
    GridSetup setup = setup_for(grid);
    setup.gpt.bias = false;
    expect_formulas(setup);
    setup.gpt.tied_head = false;
    setup.plan.compute = DType::f64;
    expect_formulas(setup);
    setup.plan.compute = DType::bf16;
    setup.gpt.bias = true;
    expect_formulas(setup);
    setup.plan.rounds_gradients = true;
    expect_formulas(setup);
  }
}

// The forward collectives of blocks twice, but not those of the embedding, the last norm, the head
// and the loss, and not the reduction of a block's last product.
TEST(Traffic, recomputation_repeats_the_forward_collectives_of_blocks_that_it_needs) {
  for (const std::int64_t blocks : {1, 2})
    for (const plan::Grid& grid : grids_of({1, 2, 3}, 12)) {
      GridSetup setup = setup_for(grid);
      setup.gpt.num_layers = 3;
      setup.plan.checkpointing.layers = blocks;
      expect_formulas(setup);
      setup.gpt.tied_head = false;
      expect_formulas(setup);
    }
}

// --- work

TEST(Attention, is_shared_out_over_all_ranks_and_repeated_on_none) {
  for (const plan::Grid& grid : test_grids()) {
    const GridSetup setup = setup_for(grid);
    GridSetup serial = setup;
    serial.plan.micro_batch_size *= grid.z * grid.data;
    serial.plan.grid = {};
    EXPECT_EQ(flops_of_attention(setup.train()) * static_cast<double>(plan::num_ranks(grid)),
              flops_of_attention(serial.train()))
        << text_of(grid);
  }
}

}  // namespace
}  // namespace fourfold::compile
