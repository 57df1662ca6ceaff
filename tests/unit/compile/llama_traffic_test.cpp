// What a rank sends in a training step of a Llama, against formulas in whole numbers, where axes
// divide the groups of heads and where they cut samples instead.
//
// h hidden, f ffn width, L layers; t tokens of a micro-batch on one rank.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "program/traffic.h"
#include "unit/compile/grid_setup.h"
#include "unit/compile/text_traffic_forms.h"
#include "unit/compile/traffic_forms.h"

namespace fourfold::compile {
namespace {

/// Two layers and an odd vocabulary. Degrees up to 4 divide all that they cut, samples too, but not
/// the groups.
GridSetup llama_on(const plan::Grid& grid, std::int64_t groups) {
  GridSetup setup;
  setup.llama = {.num_layers = 2,
                 .num_attention_heads = groups == 1 ? 4 : 2 * groups,
                 .num_key_value_heads = groups,
                 .head_dim = 12,
                 .hidden_size = 144,
                 .ffn_hidden_size = 288,
                 .max_position_embeddings = 4,
                 .vocab_size = 101};
  setup.plan.seq_length = 4;
  setup.plan.micro_batch_size = 144;
  setup.set_grid(grid, 3);
  return setup;
}

class LlamaFormulas : public TextFormulas {
 public:
  explicit LlamaFormulas(const GridSetup& setup) : TextFormulas(setup), llama_(*setup.llama) {
    std::int64_t groups = llama_.num_key_value_heads;
    for (const char* axis : {"x", "y"}) {
      const bool divides = groups % g(axis) == 0;
      if (divides) groups /= g(axis);
      (divides ? on_groups_ : on_samples_).emplace_back(axis);
    }
    attention();
    mlp();
    norms();
    biases();
    update();
  }

 private:
  static constexpr std::int64_t all_to_all = 1;

  bool x_is_on_groups() const { return !on_groups_.empty() && on_groups_[0] == "x"; }
  /// The width of all queries, and that of queries, keys and values.
  std::int64_t heads() const { return llama_.num_attention_heads * llama_.head_dim; }
  std::int64_t heads_and_keys() const {
    return heads() + 2 * llama_.num_key_value_heads * llama_.head_dim;
  }

  /// The sums over y are scattered, to groups where y divides them, else to samples. Where x
  /// divides no groups, it cuts the widths of heads, and exchanges these for samples.
  void attention() {
    const std::int64_t l = s_.layers, x = g("x"), y = g("y");
    activation("linear", "y", reduce_scatter, forward_ * l, heads_and_keys(), x);
    activation("attention", "y", all_gather, forward_ * l, heads(), x);
    activation("linear", "x", all_reduce, forward_ * l, s_.h, y);  // of attention's output
    activation("linear", "y", reduce_scatter, l, heads(), x);      // the gradient of its input
    activation("attention", "y", all_gather, l, heads_and_keys(), x);
    activation("linear", "x", all_reduce, l, s_.h, y);
    if (!x_is_on_groups()) {
      activation("linear", "x", all_to_all, forward_ * l, heads_and_keys(), x * y);
      activation("attention", "x", all_to_all, forward_ * l, heads(), x * y);
      activation("linear", "x", all_to_all, l, heads(), x * y);
      activation("attention", "x", all_to_all, l, heads_and_keys(), x * y);
    }
    weight("linear", l * s_.h * (heads_and_keys() + heads()), x * y, forward_);
    // Every rank has heads or samples of its own.
    if (llama_.head_norm)
      for (std::int64_t gain = 0; gain < 2 * l; ++gain)
        small("attention", llama_.head_dim, {}, {"y", "x"});
  }

  /// The gate and what it opens for are one product, of which one half's width is down's input.
  void mlp() {
    const std::int64_t l = s_.layers, x = g("x"), y = g("y");
    activation("linear", "y", all_reduce, forward_ * l, 2 * s_.f, x);
    activation("linear", "x", all_reduce, down_products(), s_.h, y);
    activation("linear", "y", all_reduce, l, s_.f, x);
    activation("linear", "x", all_reduce, l, s_.h, y);
    weight("linear", l * 3 * s_.h * s_.f, x * y, forward_);
  }

  /// One number a token: the squares of each of y parts are gathered, sums of the gradient
  /// all-reduced. The last norm is of no layer.
  void norms() {
    const std::int64_t l = s_.layers, y = g("y");
    add("norm", "y", all_gather, (forward_ * 2 * l + 1) * s_.micros, y * s_.t, 1, s_.accumulate);
    add("norm", "y", all_reduce, (2 * l + 1) * s_.micros, s_.t, 1, s_.accumulate);
    for (std::int64_t i = 0; i < 2 * l + 1; ++i) small("norm", s_.h, {"y"});
  }

  void biases() {
    using model::AttentionBias;
    for (std::int64_t layer = 0; layer < s_.layers; ++layer) {
      if (llama_.attention_bias != AttentionBias::none) {
        const std::vector<std::string> of_samples(on_samples_.rbegin(), on_samples_.rend());
        small("bias", heads_and_keys(), on_groups_, of_samples);
      }
      if (llama_.attention_bias == AttentionBias::all) small("bias", s_.h, {"y"});
      if (!llama_.mlp_bias) continue;
      small("bias", 2 * s_.f, {"x"});
      small("bias", s_.h, {"y"});
    }
  }

  /// The votes are summed up over all ranks; squared norm and number of elements that are not
  /// finite over those that cut weights. What all ranks hold is summed up nowhere.
  void update() {
    sum("update", {"data", "z", "y", "x"}, 1, 1, 1, 8);
    sum("update", {"z", "y", "x"}, 1, 2, 1, 8);
  }

  const model::LlamaSpec& llama_;
  std::vector<std::string> on_groups_, on_samples_;  // x before y
};

void expect_formulas_of_llama(const GridSetup& setup) {
  SCOPED_TRACE(
      format("{} groups on {}", setup.llama->num_key_value_heads, text_of(setup.plan.grid)));
  EXPECT_EQ(sent_by_class(setup.train()), LlamaFormulas(setup).result);
}

const std::vector<std::int64_t> numbers_of_groups = {1, 2, 3, 12};

TEST(Traffic, of_a_llama_follows_its_formulas_whether_axes_divide_its_groups_or_not) {
  std::size_t grids = 0;
  for (const std::int64_t groups : numbers_of_groups)
    for (const plan::Grid& grid : grids_of({1, 2, 3, 4}, 12)) {
      expect_formulas_of_llama(llama_on(grid, groups));
      ++grids;
    }
  EXPECT_GE(grids, 300U);
  std::printf("formulas of all classes of a Llama: %zu grids\n", grids);
}

TEST(Traffic, of_a_llama_follows_them_with_biases_head_norms_documents_and_in_other_precisions) {
  for (const std::int64_t groups : {2, 3})
    for (const plan::Grid& grid : grids_of({1, 2, 3}, 6)) {
      GridSetup setup = llama_on(grid, groups);
      setup.llama->head_norm = true;
      setup.llama->attention_bias = model::AttentionBias::qkv;
      setup.masks_documents = setup.restarts_positions = true;
      expect_formulas_of_llama(setup);
      setup.llama->attention_bias = model::AttentionBias::all;
      setup.llama->mlp_bias = true;
      setup.llama->tied_head = false;
      setup.plan.compute = DType::f64;
      expect_formulas_of_llama(setup);
      setup.plan.compute = DType::bf16;
      setup.plan.rounds_gradients = true;
      expect_formulas_of_llama(setup);
    }
}

TEST(Traffic, of_a_llama_that_computes_layers_again_follows_them) {
  for (const std::int64_t groups : {2, 3})
    for (const plan::Grid& grid : grids_of({1, 2, 3}, 6)) {
      GridSetup setup = llama_on(grid, groups);
      setup.llama->num_layers = 3;
      setup.llama->head_norm = groups == 2;
      for (const std::int64_t layers : {1, 2}) {
        setup.plan.checkpointing.layers = layers;
        expect_formulas_of_llama(setup);
      }
    }
}

// --- work

TEST(Attention, of_groups_is_shared_out_over_all_ranks_and_repeated_on_none) {
  for (const std::int64_t groups : numbers_of_groups)
    for (const plan::Grid& grid : grids_of({1, 2, 3, 4}, 12)) {
      if (grid.z * grid.data > 1) continue;
      GridSetup serial = llama_on({}, groups);
      EXPECT_EQ(flops_of_attention(llama_on(grid, groups).train()) *
                    static_cast<double>(plan::num_ranks(grid)),
                flops_of_attention(serial.train()))
          << groups << " groups on " << text_of(grid);
    }
}

}  // namespace
}  // namespace fourfold::compile
