// op::propagate: states of outputs from states of reads.
#include <gtest/gtest.h>

#include "op/rule.h"
#include "op/table.h"

namespace fourfold::op::propagate_test {
namespace {

using Linear = FactorRule::Linear;
using Shardings = std::vector<Sharding>;

constexpr AxisId x(0), y(1), z(2);
const Mesh mesh{"main", {{"x", 2}, {"y", 2}, {"z", 2}, {"data", 2}}, {}};

Propagation propagate(const FactorRule& rule, const Shardings& reads, const Shardings& outputs) {
  return op::propagate(rule, reads, outputs, mesh);
}

/// A sharding of whole blocks, one list of axes per dim.
Sharding cut(const std::vector<std::vector<AxisId>>& dims,
             const std::vector<AxisId>& partial = {}) {
  Sharding result;
  for (const auto& axes : dims) {
    auto& cuts = result.dims.emplace_back();
    for (const AxisId axis : axes) cuts.push_back({axis, std::nullopt});
  }
  for (const AxisId axis : partial) result.partial.push_back({axis, Reduction::sum});
  return result;
}
Sharding partial(const std::vector<AxisId>& axes) {
  return cut({}, axes);
}

const FactorRule contract{{"mk", "kn", "mn"}, "", Linear::one};

TEST(Propagate, cut_rows_of_a_product_stay_cut) {
  const auto result = propagate(contract, Shardings{cut({{z}, {}}), cut({{}, {x}})}, Shardings{{}});
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.outputs, Shardings{cut({{z}, {x}})});
}

TEST(Propagate, a_cut_contracted_dim_makes_the_partial_sum) {
  const auto result =
      propagate(contract, Shardings{cut({{z}, {y, x}}), cut({{y, x}, {}})}, Shardings{{}});
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.outputs, Shardings{cut({{z}, {}}, {x, y})});
}

TEST(Propagate, uncut_reads_give_an_uncut_output_without_dims) {
  EXPECT_EQ(propagate(contract, Shardings{{}, {}}, Shardings{{}}).outputs, Shardings{Sharding{}});
}

TEST(Propagate, a_contracted_dim_cut_on_one_side_only_is_a_problem) {
  EXPECT_NE(propagate(contract, Shardings{cut({{}, {x}}), {}}, Shardings{{}}).problem, "");
  EXPECT_NE(propagate(contract, Shardings{cut({{}, {x}}), cut({{y}, {}})}, Shardings{{}}).problem,
            "");
}

TEST(Propagate, cuts_of_another_order_or_stride_are_a_problem) {
  EXPECT_NE(
      propagate(contract, Shardings{cut({{}, {x, y}}), cut({{y, x}, {}})}, Shardings{{}}).problem,
      "");
  Sharding strided = cut({{x}, {}});
  strided.dims[0][0].stride = 1;
  EXPECT_NE(propagate(contract, Shardings{cut({{}, {x}}), strided}, Shardings{{}}).problem, "");
}

TEST(Propagate, an_axis_may_cut_one_factor_only) {
  const auto result = propagate(contract, Shardings{cut({{x}, {}}), cut({{}, {x}})}, Shardings{{}});
  EXPECT_NE(result.problem.find("already in use"), std::string::npos) << result.problem;
}

TEST(Propagate, an_axis_may_not_cut_and_be_partial) {
  const auto result = propagate(contract, Shardings{cut({{x}, {}}), partial({x})}, Shardings{{}});
  EXPECT_NE(result.problem.find("already in use"), std::string::npos) << result.problem;
}

TEST(Propagate, a_product_is_linear_in_one_read_at_a_time) {
  EXPECT_EQ(propagate(contract, Shardings{partial({x}), {}}, Shardings{{}}).outputs,
            Shardings{partial({x})});
  EXPECT_EQ(propagate(contract, Shardings{{}, partial({x})}, Shardings{{}}).outputs,
            Shardings{partial({x})});
  EXPECT_EQ(propagate(contract, Shardings{partial({x}), partial({y})}, Shardings{{}}).outputs,
            Shardings{partial({x, y})});
  EXPECT_NE(propagate(contract, Shardings{partial({x}), partial({x})}, Shardings{{}}).problem, "");
}

TEST(Propagate, a_sum_is_linear_in_all_reads_together) {
  const FactorRule add{{"a", "a", "a"}, "", Linear::all};
  EXPECT_EQ(propagate(add, Shardings{partial({x}), partial({x})}, Shardings{{}}).outputs,
            Shardings{partial({x})});
  EXPECT_NE(propagate(add, Shardings{partial({x}), {}}, Shardings{{}}).problem, "");
  EXPECT_NE(propagate(add, Shardings{partial({x}), partial({y})}, Shardings{{}}).problem, "");
}

TEST(Propagate, an_op_linear_in_its_first_read_takes_no_other_partial_one) {
  const FactorRule dropout{{"a", "", "a"}, "", Linear::first};
  EXPECT_EQ(propagate(dropout, Shardings{partial({x}), {}}, Shardings{{}}).outputs,
            Shardings{partial({x})});
  EXPECT_NE(propagate(dropout, Shardings{{}, partial({x})}, Shardings{{}}).problem, "");
}

TEST(Propagate, an_op_that_is_not_linear_takes_no_partial_sum) {
  const FactorRule gelu{{"a", "a"}, "", Linear::no};
  EXPECT_NE(propagate(gelu, Shardings{partial({x})}, Shardings{{}}).problem, "");
  EXPECT_EQ(propagate(gelu, Shardings{cut({{x}})}, Shardings{{}}).outputs, Shardings{cut({{x}})});
}

TEST(Propagate, no_op_takes_a_partial_maximum) {
  Sharding maximum;
  maximum.partial = {{x, Reduction::max}};
  EXPECT_NE(propagate(contract, Shardings{maximum, {}}, Shardings{{}}).problem, "");
}

TEST(Propagate, a_cut_factor_of_a_maximum_makes_the_partial_maximum) {
  const FactorRule rule{{"rv", "r"}, "", Linear::no, Reduction::max};
  const auto result = propagate(rule, Shardings{cut({{z}, {y, x}})}, Shardings{{}});
  EXPECT_EQ(result.problem, "");
  Sharding expected = cut({{z}});
  expected.partial = {{x, Reduction::max}, {y, Reduction::max}};
  EXPECT_EQ(result.outputs, Shardings{expected});
}

TEST(Propagate, outputs_that_lack_a_repeated_factor_are_replicated) {
  const FactorRule rule{{"rc", "r", "rc", "r"}, "", Linear::no, Reduction::sum, "c"};
  const Sharding rows = cut({{z}, {y}}), each = cut({{z}});
  const auto result = propagate(rule, Shardings{rows, each}, Shardings(2));
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.outputs, (Shardings{rows, each}));
}

TEST(Propagate, a_whole_factor_may_not_be_cut) {
  const FactorRule norm{{"rc", "rc"}, "c", Linear::no};
  EXPECT_NE(propagate(norm, Shardings{cut({{}, {x}})}, Shardings{{}}).problem, "");
  EXPECT_EQ(propagate(norm, Shardings{cut({{x}, {}})}, Shardings{{}}).outputs,
            Shardings{cut({{x}, {}})});
}

TEST(Propagate, a_factor_of_outputs_only_follows_the_claim) {
  const FactorRule rule{{"t", "tc", "vc"}, "", Linear::one};
  const auto result =
      propagate(rule, Shardings{cut({{z}}), cut({{z}, {}})}, Shardings{cut({{x}, {}})});
  EXPECT_EQ(result.problem, "");
  EXPECT_EQ(result.outputs, Shardings{cut({{x}, {}}, {z})});
  const FactorRule whole{{"t", "tc", "vc"}, "v", Linear::one};
  EXPECT_NE(propagate(whole, Shardings{{}, {}}, Shardings{cut({{x}, {}})}).problem, "");
}

TEST(Propagate, an_op_without_reads_takes_the_mesh_of_its_output) {
  Sharding claim = cut({{x}});
  claim.mesh = MeshId(1);
  EXPECT_EQ(propagate({{"a"}, "", Linear::no}, Shardings{}, Shardings{claim}).outputs,
            Shardings{claim});
}

TEST(Propagate, reads_of_different_meshes_are_a_problem) {
  Sharding other;
  other.mesh = MeshId(1);
  EXPECT_NE(propagate(contract, Shardings{{}, other}, Shardings{{}}).problem, "");
}

// --- rules of rows

std::vector<Sharding> states(const Op& op, const std::vector<Shape>& shapes, const Shardings& reads,
                             std::size_t outputs) {
  const auto result = propagate(factors(op, shapes), reads, Shardings(outputs));
  EXPECT_EQ(result.problem, "") << name(op);
  return result.outputs;
}

TEST(FactorRules, a_weight_gradient_is_partial_on_the_axes_that_cut_the_batch) {
  const Contract weight_gradient{2, 2, true, false, false};
  const std::vector<Shape> shapes = {{4, 8, 16}, {4, 8, 32}};
  EXPECT_EQ(states(weight_gradient, shapes, {cut({{z}, {}, {y}}), cut({{z}, {}, {x}})}, 1),
            Shardings{cut({{y}, {x}}, {z})});
}

TEST(FactorRules, a_bias_gradient_is_partial_on_the_axes_that_cut_the_batch) {
  EXPECT_EQ(states(BiasGradient{2}, {{4, 8, 16}}, {cut({{z, y}, {}, {x}})}, 1),
            Shardings{cut({{x}}, {y, z})});
}

TEST(FactorRules, an_embedding_of_a_cut_vocabulary_is_a_partial_sum) {
  EXPECT_EQ(states(Embedding{}, {{4, 8}, {100, 16}}, {cut({{z}, {}}), cut({{x}, {}})}, 1),
            Shardings{cut({{z}, {}, {}}, {x})});
}

TEST(FactorRules, a_loss_sum_is_partial_on_the_axes_that_cut_the_batch) {
  EXPECT_EQ(states(LossSum{}, {{4, 8}, {4, 8}}, {cut({{z}, {}}), cut({{z}, {}})}, 2),
            (Shardings{partial({z}), partial({z})}));
}

Sharding maximum(const std::vector<std::vector<AxisId>>& dims, AxisId axis) {
  Sharding result = cut(dims);
  result.partial = {{axis, Reduction::max}};
  return result;
}

TEST(FactorRules, moments_of_cut_channels_are_cut_along_their_parts) {
  EXPECT_EQ(states(LayerNormMoments{4}, {{4, 8, 16}}, {cut({{z}, {}, {y}})}, 1),
            Shardings{cut({{y}, {z}, {}, {}})});
  EXPECT_NE(propagate(factors(LayerNormMoments{2}, std::vector<Shape>{{4, 8, 16}}),
                      Shardings{cut({{z}, {}, {y, x}})}, Shardings(1))
                .problem,
            "")
      << "moments of halves of a part are no terms of its moments";
}

TEST(FactorRules, applied_norm_keeps_cut_channels_and_wants_all_moments) {
  const LayerNormApply apply{1e-5, true, 16};
  const std::vector<Shape> shapes = {{4, 8, 16}, {4, 4, 8, 2}, {16}, {16}};
  const Sharding rows = cut({{z}, {}, {y}}), channels = cut({{y}});
  EXPECT_EQ(states(apply, shapes, {rows, cut({{}, {z}, {}, {}}), channels, channels}, 3),
            (Shardings{rows, cut({{z}, {}}), cut({{z}, {}})}));
  EXPECT_NE(propagate(factors(apply, shapes),
                      Shardings{rows, cut({{y}, {z}, {}, {}}), channels, channels}, Shardings(3))
                .problem,
            "");
}

TEST(FactorRules, gradient_sums_of_cut_channels_are_a_partial_sum) {
  const std::vector<Shape> shapes = {{4, 8, 16}, {16}, {4, 8}, {4, 8}, {4, 8, 16}, {4, 8, 2}};
  const Sharding rows = cut({{z}, {}, {y}}), each = cut({{z}, {}});
  Shardings reads = {rows, cut({{y}}), each, each, rows};
  EXPECT_EQ(states(LayerNormGradientSums{}, {shapes.begin(), shapes.end() - 1}, reads, 1),
            Shardings{cut({{z}, {}, {}}, {y})});
  reads.push_back(cut({{z}, {}, {}}));
  EXPECT_EQ(states(LayerNormGradientApply{16}, shapes, reads, 1), Shardings{rows});
  reads.back() = cut({{z}, {}, {}}, {y});
  EXPECT_NE(propagate(factors(LayerNormGradientApply{16}, shapes), reads, Shardings(1)).problem,
            "");
}

TEST(FactorRules, a_cut_vocabulary_gives_a_partial_maximum_and_partial_sums) {
  const std::vector<Shape> shapes = {{4, 8, 100}, {4, 8}, {4, 8}};
  const Sharding logits = cut({{z}, {}, {x}}), each = cut({{z}, {}});
  EXPECT_EQ(states(LogitMax{}, {shapes[0]}, {logits}, 1), Shardings{maximum({{z}, {}}, x)});
  EXPECT_EQ(states(LogitSums{}, shapes, {logits, each, each}, 2),
            (Shardings{cut({{z}, {}}, {x}), cut({{z}, {}}, {x})}));
  EXPECT_EQ(states(CrossEntropyGradient{}, shapes, {logits, each, each}, 1), Shardings{logits});
  // The maximum has to be reduced before its use, and so have the sums.
  EXPECT_NE(propagate(factors(LogitSums{}, shapes), Shardings{logits, each, maximum({{z}, {}}, x)},
                      Shardings(2))
                .problem,
            "");
  const std::vector<Shape> rows(4, Shape{4, 8});
  EXPECT_NE(propagate(factors(CrossEntropyMerge{}, rows),
                      Shardings{each, cut({{z}, {}}, {x}), each, each}, Shardings(2))
                .problem,
            "");
  EXPECT_EQ(states(CrossEntropyMerge{}, rows, {each, each, each, each}, 2),
            (Shardings{each, each}));
}

TEST(FactorRules, whole_forms_want_uncut_channels_and_vocabulary) {
  EXPECT_NE(propagate(factors(LayerNorm{}, std::vector<Shape>{{4, 8, 16}, {16}, {16}}),
                      Shardings{cut({{z}, {}, {y}}), cut({{y}}), cut({{y}})}, Shardings(3))
                .problem,
            "");
  EXPECT_NE(propagate(factors(CrossEntropy{}, std::vector<Shape>{{4, 8, 100}, {4, 8}}),
                      Shardings{cut({{z}, {}, {x}}), cut({{z}, {}})}, Shardings(2))
                .problem,
            "");
}

TEST(FactorRules, document_starts_are_cut_as_the_tokens_are) {
  const std::vector<Shape> shapes = {{4, 8, 3, 6, 2}, {4, 8}};
  const Sharding qkv = cut({{z}, {}, {}, {x}, {}}), samples = cut({{z}, {}});
  const Attention op{{}, 0, {}, 0, 0, true};
  EXPECT_EQ(states(op, shapes, {qkv, samples}, 2),
            (Shardings{cut({{z}, {}, {x}, {}}), cut({{z}, {x}, {}})}));
  for (const Sharding& wrong : {Sharding{}, cut({{z}, {y}})})
    EXPECT_NE(propagate(factors(op, shapes), Shardings{qkv, wrong}, Shardings(2)).problem, "");
  const Sharding rows = cut({{z}, {x}, {y}});
  EXPECT_EQ(states(AddPositions{false, 0, true}, {{4, 8, 16}, {32, 16}, {4, 8}},
                   {rows, cut({{}, {y}}), cut({{z}, {x}})}, 1),
            Shardings{rows});
  EXPECT_EQ(states(PositionsGradient{32, 0, false, true}, {{4, 8, 16}, {4, 8}},
                   {rows, cut({{z}, {x}})}, 1),
            Shardings{cut({{}, {y}}, {x, z})});
}

TEST(FactorRules, positions_may_be_cut_in_time_but_not_their_table) {
  const std::vector<Shape> shapes = {{4, 8, 16}, {32, 16}};
  const Sharding rows = cut({{z}, {x}, {y}});
  EXPECT_EQ(states(AddPositions{}, shapes, {rows, cut({{}, {y}})}, 1), Shardings{rows});
  EXPECT_NE(propagate(factors(AddPositions{}, shapes), Shardings{{}, cut({{x}, {}})}, Shardings(1))
                .problem,
            "");
  EXPECT_EQ(states(PositionsGradient{32}, {shapes[0]}, {rows}, 1),
            Shardings{cut({{}, {y}}, {x, z})});
  EXPECT_NE(propagate(factors(PositionsGradient{32}, std::vector<Shape>{shapes[0]}),
                      Shardings{rows}, Shardings{cut({{AxisId(3)}, {}})})
                .problem,
            "");
}

TEST(FactorRules, windowed_ops_may_be_cut_in_every_dim) {
  const Sharding all = cut({{z}, {x}, {y}});
  EXPECT_EQ(states(Dropout{}, {{4, 8, 16}, {}, {}}, {all, {}, {}}, 1), Shardings{all});
  EXPECT_EQ(states(Digest{}, {{4, 8, 16}}, {all}, 1), Shardings{partial({x, y, z})});
  const auto init = propagate(factors(InitNormal{{1}, 1, {4, 8, 16}}, std::vector<Shape>{{}}),
                              Shardings{{}}, Shardings{all});
  EXPECT_EQ(init.problem, "");
  EXPECT_EQ(init.outputs, Shardings{all});
}

TEST(FactorRules, attention_keeps_cuts_of_samples_and_heads) {
  EXPECT_EQ(states(Attention{}, {{4, 8, 3, 2, 5}}, {cut({{z}, {}, {}, {x}, {}})}, 2),
            (Shardings{cut({{z}, {}, {x}, {}}), cut({{z}, {x}, {}})}));
}

}  // namespace
}  // namespace fourfold::op::propagate_test
