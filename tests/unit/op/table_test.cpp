// Every row of the op table: its text, its operands, its factor letters; attributes that are
// hostile.
#include "op/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/error.h"

namespace fourfold::op {
namespace {

/// One op of every row, with attributes that differ from the defaults, and shapes of reads that it
/// accepts.
struct Sample {
  Op op;
  std::vector<Shape> reads;
};
const std::vector<Sample>& samples() {
  static const SampleWindow window{3, 16, 4};
  static const TensorWindow part{{5, 9}, {2, 4}};
  static const Shape scalar;
  static const std::vector<Sample> list = {
      {Matmul{2, 1, false, false, true, true}, {{2, 3, 4}, {4, 5}}},
      {Embedding{7}, {{2, 3}, {10, 4}}},
      {EmbeddingGradient{10, 7, true}, {{2, 3}, {2, 3, 4}}},
      {AddPositions{true, 5}, {{2, 3, 4}, {8, 4}, scalar}},
      {PositionsGradient{8, 5, true}, {{2, 3, 4}}},
      {AddPositions{false, 5, true}, {{2, 3, 4}, {8, 4}, {2, 3}}},
      {PositionsGradient{8, 5, true, true}, {{2, 3, 4}, {2, 3}}},
      {Dropout{{99}, 0.1, window, part}, {{2, 3, 4}, scalar, scalar}},
      {LayerNorm{1e-6, false}, {{2, 3, 4}, {4}}},
      {LayerNormGradient{}, {{2, 3, 4}, {4}, {2, 3}, {2, 3}, {2, 3, 4}}},
      {LayerNormWeightGradient{false, true}, {{2, 3, 4}, {2, 3}, {2, 3}, {2, 3, 4}}},
      {LayerNormMoments{2}, {{2, 3, 4}}},
      {LayerNormApply{1e-6, true, 8}, {{2, 3, 4}, {2, 2, 3, 2}, {4}, {4}}},
      {LayerNormGradientSums{}, {{2, 3, 4}, {4}, {2, 3}, {2, 3}, {2, 3, 4}}},
      {LayerNormGradientApply{8}, {{2, 3, 4}, {4}, {2, 3}, {2, 3}, {2, 3, 4}, {2, 3, 2}}},
      {AddBias{}, {{2, 3, 4}, {3, 4}}},
      {BiasGradient{2, true}, {{2, 3, 4}}},
      {Gelu{}, {{2, 3}}},
      {GeluGradient{}, {{2, 3}, {2, 3}}},
      {Cast{}, {{2, 3}}},
      {CastList{2}, {{2, 3}, {4}}},
      {Add{}, {{2, 3}, {2, 3}}},
      {Attention{{~0ULL}, 0.25, window, 1, 4}, {{2, 3, 3, 4, 5}, scalar, scalar}},
      {AttentionGradient{{1}, 0.25, window, 1, 4},
       {{2, 3, 3, 4, 5}, {2, 3, 4, 5}, {2, 4, 3}, {2, 3, 4, 5}, scalar, scalar}},
      {Attention{{~0ULL}, 0.25, window, 1, 4, true}, {{2, 3, 3, 4, 5}, {2, 3}, scalar, scalar}},
      {AttentionGradient{{1}, 0.25, window, 1, 4, true},
       {{2, 3, 3, 4, 5}, {2, 3, 4, 5}, {2, 4, 3}, {2, 3, 4, 5}, {2, 3}, scalar, scalar}},
      {AttentionCached{9}, {{2, 3, 3, 4, 5}, scalar}},
      {TakePosition{}, {{2, 3, 4}, scalar}},
      {CrossEntropy{}, {{2, 3, 10}, {2, 3}}},
      {LogitMax{10, 17}, {{2, 3, 10}}},
      {LogitSums{10, 17}, {{2, 3, 10}, {2, 3}, {2, 3}}},
      {CrossEntropyMerge{}, {{2, 3}, {2, 3}, {2, 3}, {2, 3}}},
      {CrossEntropyGradient{1.0 / 3, 10, 17}, {{2, 3, 10}, {2, 3}, {2, 3}}},
      {LossSum{true}, {{2, 3}, {2, 3}}},
      {SquaredNorm{true}, {{2, 3}}},
      {SquaredNorm{true, 2}, {{2, 3}, {4}}},
      {CountNonFinite{true}, {{2, 3}}},
      {CountNonFinite{false, 3}, {{2, 3}, {4}, {3, 1, 2}}},
      {Vote{}, std::vector<Shape>(6)},
      {UpdateControl{12345, 0.5}, std::vector<Shape>(3)},
      {AdamW{0.8, 0.99, 1e-9, 0.1}, {{2, 3}, scalar, scalar, scalar, scalar}},
      {AdamWList{0.8, 0.99, 1e-9, 0.1, 2, 1}, {scalar, scalar, scalar, scalar, {2, 3}, {4}}},
      {CountUpdate{}, {scalar}},
      {InitNormal{{42}, 0.02, {2, 3}, part}, {scalar}},
      {Fill{-1.5, {2, 3}}, {}},
      {Digest{{43}, part}, {{2, 3}}},
      {BiasGelu{}, {{2, 3, 4}, {3, 4}}},
      {AddLayerNorm{1e-6, true, true, {7}, 0.1, window, part},
       {{2, 3, 4}, {2, 3, 4}, {4}, scalar, scalar, {4}, {4}}},
      {AddLayerNormGradient{true, {7}, 0.1, window, part},
       {{2, 3, 4}, {4}, {2, 3}, {2, 3}, {2, 3, 4}, {2, 3, 4}, scalar, scalar}},
      {CrossEntropyBoth{1.0 / 3}, {{2, 3, 10}, {2, 3}}},
      {MatmulBias{2, 1, false, true}, {{2, 3, 4}, {5, 4}, {5}}},
      {MatmulBiasGelu{2, 2}, {{2, 3, 4, 5}, {4, 5, 6, 7}, {6, 7}}},
      {MatmulGeluGradient{2, 1, false, true, 2, true}, {{2, 3, 4}, {5, 4}, {2, 3, 5}}},
  };
  return list;
}

TEST(OpTable, TheSamplesCoverEveryRow) {
  std::set<std::size_t> rows;
  for (const Sample& sample : samples()) rows.insert(sample.op.index());
  for (std::size_t row = 0; row < std::variant_size_v<AnyRow>; ++row)
    EXPECT_TRUE(rows.contains(row)) << "row " << row << " of the table";
}

TEST(OpTable, AttributesReadBackEqual) {
  for (const Sample& sample : samples())
    for (const std::optional<std::int64_t> micro : {std::optional<std::int64_t>(), {3}, {5}}) {
      const std::string text = attributes_text(sample.op, micro);
      EXPECT_EQ(parse_op(name(sample.op), text, micro), sample.op)
          << name(sample.op) << " " << text;
    }
}

template <std::size_t... Index>
std::vector<Op> default_rows(std::index_sequence<Index...>) {
  return {Op(std::variant_alternative_t<Index, AnyRow>{})...};
}

TEST(OpTable, ARowOfDefaultsHasNoText) {
  for (const Op& op : default_rows(std::make_index_sequence<std::variant_size_v<AnyRow>>())) {
    EXPECT_EQ(attributes_text(op, std::nullopt), "") << name(op);
    EXPECT_EQ(parse_op(name(op), "", std::nullopt), op) << name(op);
  }
}

TEST(OpTable, AWindowOfTheTasksMicroBatchPrintsTheWordMicro) {
  const Op op = Dropout{{1}, 0.5, {3, 16, 4}};
  EXPECT_EQ(attributes_text(op, 3),
            "stream 0x0000000000000001 rate 0.5 micro micro samples 16 first 4");
  EXPECT_EQ(attributes_text(op, 2),
            "stream 0x0000000000000001 rate 0.5 micro 3 samples 16 first 4");
  EXPECT_EQ(parse_op("dropout", attributes_text(op, 3), 7), Op(Dropout({{1}, 0.5, {7, 16, 4}})));
}

TEST(OpTable, AWindowOfATensorPrintsItsShapeAndPlace) {
  const Op digest = Digest{{1}, {{8, 4}, {0, 2}}};
  EXPECT_EQ(attributes_text(digest, std::nullopt),
            "stream 0x0000000000000001 global [8, 4] at [0, 2]");
  const Op dropout = Dropout{{1}, 0.5, {3, 16, 4}, {{8, 4}, {0, 2}}};
  EXPECT_EQ(attributes_text(dropout, 3),
            "stream 0x0000000000000001 rate 0.5 micro micro samples 16 first 4 global [8, 4] at "
            "[0, 2]");
  EXPECT_THROW(parse_op("digest", "global 8", std::nullopt), UserError);
  EXPECT_THROW(parse_op("digest", "at [0, 2", std::nullopt), UserError);
  EXPECT_THROW(parse_op("gelu", "global [8]", std::nullopt), UserError);
}

TEST(OpTable, NumbersKeepTheirLastBit) {
  for (const double value :
       {1.0 / 3, std::nextafter(1.0, 2.0), std::numeric_limits<double>::denorm_min(),
        std::numeric_limits<double>::max(), -1e-300, std::numeric_limits<double>::infinity()}) {
    const Op op = Fill{value, {}};
    EXPECT_EQ(parse_op("fill", attributes_text(op, std::nullopt), std::nullopt), op) << value;
  }
}

TEST(OpTable, RefusesWordsItDoesNotUnderstand) {
  EXPECT_THROW(parse_op("gemm", "", std::nullopt), UserError);
  EXPECT_THROW(parse_op("matmul", "rows 2", std::nullopt), UserError);
  EXPECT_THROW(parse_op("matmul", "a_rows", std::nullopt), UserError);
  EXPECT_THROW(parse_op("matmul", "a_rows two", std::nullopt), UserError);
  EXPECT_THROW(parse_op("matmul", "a_rows 2x", std::nullopt), UserError);
  EXPECT_THROW(parse_op("matmul", "accumulate yes", std::nullopt), UserError);
  EXPECT_THROW(parse_op("fill", "shape [2, 3", std::nullopt), UserError);
  EXPECT_THROW(parse_op("fill", "value 1e999", std::nullopt), UserError);
  EXPECT_THROW(parse_op("digest", "stream 12", std::nullopt), UserError);
  EXPECT_THROW(parse_op("dropout", "micro micro samples 2 first 0", std::nullopt), UserError);
}

// --- operands, shapes, factors

std::size_t count_reads(const Op& op) {
  std::size_t count = 0;
  for (const Operand& operand : operands(op)) count += operand.role == Role::read ? 1U : 0U;
  return count;
}

TEST(OpTable, ReadsStandBeforeOutputs) {
  for (const Sample& sample : samples()) {
    const Operands list = operands(sample.op);
    ASSERT_EQ(count_reads(sample.op), sample.reads.size()) << name(sample.op);
    for (std::size_t i = 0; i < list.size(); ++i)
      EXPECT_EQ(list[i].role == Role::read, i < sample.reads.size())
          << name(sample.op) << " " << list[i].name;
  }
}

TEST(OpTable, AnOutputMayTakeOverOnlyAReadOfItsShapeAndDtype) {
  for (const Sample& sample : samples()) {
    const Operands list = operands(sample.op);
    const std::vector<Shape> shapes = outputs(sample.op, sample.reads);
    for (std::size_t i = sample.reads.size(); i < list.size(); ++i) {
      if (!list[i].may_alias) continue;
      ASSERT_LT(*list[i].may_alias, sample.reads.size()) << name(sample.op);
      EXPECT_EQ(sample.reads[*list[i].may_alias], shapes[i - sample.reads.size()])
          << name(sample.op);
      EXPECT_EQ(list[*list[i].may_alias].element, list[i].element) << name(sample.op);
    }
  }
}

TEST(OpTable, FactorsHaveALetterPerDimAndOneSizePerLetter) {
  for (const Sample& sample : samples()) {
    std::vector<Shape> all = sample.reads;
    for (const Shape& shape : outputs(sample.op, sample.reads)) all.push_back(shape);
    const FactorRule rule = factors(sample.op, sample.reads);
    ASSERT_EQ(rule.operands.size(), all.size()) << name(sample.op);
    ASSERT_EQ(operands(sample.op).size(), all.size()) << name(sample.op);
    // Moments hold one pair for each block of channels.
    if (std::holds_alternative<LayerNormMoments>(sample.op)) all[1][0] = all[0].back();
    std::map<char, std::int64_t> sizes;
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(rule.operands[i].size(), all[i].rank()) << name(sample.op) << " operand " << i;
      for (std::size_t dim = 0; dim < all[i].rank(); ++dim)
        EXPECT_EQ(sizes.try_emplace(rule.operands[i][dim], all[i][dim]).first->second, all[i][dim])
            << name(sample.op) << " operand " << i << " dim " << dim;
    }
  }
}

TEST(OpTable, AFusedRowStandsForItsParts) {
  for (const Sample& sample : samples()) {
    const std::vector<Part> list = parts(sample.op);
    const std::set<std::string_view> fused = {"adamw_list",
                                              "cast_list",
                                              "bias_gelu",
                                              "add_layer_norm",
                                              "add_layer_norm_gradient",
                                              "cross_entropy_both",
                                              "matmul_bias",
                                              "matmul_bias_gelu",
                                              "matmul_gelu_gradient"};
    ASSERT_EQ(list.size() > 1, fused.contains(name(sample.op)) || is_list(sample.op))
        << name(sample.op);
    std::vector<Shape> all = sample.reads;
    for (const Shape& shape : outputs(sample.op, sample.reads)) all.push_back(shape);
    const Operands whole = operands(sample.op);
    double work = 0;
    std::set<std::size_t> seen, written;
    for (const Part& part : list) {
      const Operands own = operands(part.op);
      ASSERT_EQ(own.size(), part.operands.size());
      std::vector<Shape> shapes;
      for (std::size_t i = 0; i < own.size(); ++i) {
        const std::size_t operand = part.operands[i];
        const bool from_part = own[i].role != Role::write && written.contains(operand);
        if (is_list(sample.op)) {
          EXPECT_EQ(own[i].name, whole[operand].name);
        }
        if (!from_part) {
          EXPECT_EQ(own[i].role, whole[operand].role) << name(sample.op);
        }
        EXPECT_EQ(own[i].element, whole[operand].element);
        shapes.push_back(all[operand]);
        seen.insert(operand);
      }
      const std::size_t reads = count_reads(part.op);
      written.insert(part.operands.begin() + static_cast<std::ptrdiff_t>(reads),
                     part.operands.end());
      const std::vector<Shape> results(shapes.begin() + static_cast<std::ptrdiff_t>(reads),
                                       shapes.end());
      EXPECT_EQ(outputs(part.op, Shapes(shapes).first(reads)), results) << name(sample.op);
      work += flops(part.op, shapes);
    }
    EXPECT_EQ(seen.size(), whole.size()) << name(sample.op);
    EXPECT_EQ(work, flops(sample.op, all)) << name(sample.op);
  }
  const AdamWList two{0.8, 0.99, 1e-9, 0.1, 2, 1};
  EXPECT_EQ(parts(two)[0].op, Op(AdamW{0.8, 0.99, 1e-9, 0.1}));
  EXPECT_EQ(parts(two)[1].op, Op(AdamW{0.8, 0.99, 1e-9, 0}));
}

TEST(OpTable, AListHasAsManyOperandsAsAProgramCanHaveWhateverItsTextClaims) {
  for (const std::int64_t claimed : {std::int64_t{-5}, std::int64_t{1} << 60}) {
    for (const Op& list : {Op(AdamWList{.tensors = claimed}), Op(CastList{.tensors = claimed}),
                           Op(SquaredNorm{.tensors = claimed})})
      EXPECT_LE(operands(list).size(), 400004U);
    EXPECT_LE(parts(CountNonFinite{.tensors = claimed}).size(), 100000U);
  }
}

TEST(OpTable, AReplicatedOpGivesReplicatedOutputs) {
  for (const Sample& sample : samples()) {
    const std::size_t count = operands(sample.op).size() - sample.reads.size();
    const auto result =
        propagate(factors(sample.op, sample.reads), std::vector<Sharding>(sample.reads.size()),
                  std::vector<Sharding>(count));
    EXPECT_EQ(result.problem, "") << name(sample.op);
    EXPECT_EQ(result.outputs, std::vector<Sharding>(count)) << name(sample.op);
  }
}

TEST(OpTable, ScalarsInsteadOfTensorsAreAnErrorOrHaveARule) {
  for (const Sample& sample : samples()) {
    const std::vector<Shape> scalars(sample.reads.size());
    try {
      outputs(sample.op, scalars);
      factors(sample.op, scalars);
    } catch (const InternalError&) {
    }
  }
}

TEST(OpTable, AccumulatingTurnsWritesIntoUpdates) {
  for (const Sample& sample : samples()) {
    if (!can_accumulate(sample.op)) {
      EXPECT_THROW(with_accumulate(sample.op, true), InternalError) << name(sample.op);
      continue;
    }
    for (const bool accumulate : {true, false}) {
      const Operands list = operands(with_accumulate(sample.op, accumulate));
      for (std::size_t i = sample.reads.size(); i < list.size(); ++i)
        EXPECT_EQ(list[i].role, accumulate ? Role::update : Role::write) << name(sample.op);
    }
  }
}

TEST(OpTable, OnlyOpsWithAWindowDependOnTheMicroBatch) {
  for (const Sample& sample : samples()) {
    const bool changes = with_micro(sample.op, 5) != sample.op;
    EXPECT_EQ(changes,
              attributes_text(sample.op, std::nullopt).find("micro 3") != std::string::npos)
        << name(sample.op);
  }
}

// --- wrong shapes, flops

void expect_refused(const Op& op, const std::vector<Shape>& reads) {
  EXPECT_THROW(outputs(op, reads), InternalError) << name(op);
}

TEST(OpShapes, WrongInputsAreRefused) {
  expect_refused(Matmul{}, {{2, 3}, {4, 5}});
  expect_refused(Matmul{3, 1}, {{2, 3}, {3, 5}});
  expect_refused(Matmul{-1, 1}, {{2, 3}, {3, 5}});
  expect_refused(Embedding{}, {{2, 3}, {10}});
  expect_refused(EmbeddingGradient{10}, {{2, 3}, {2, 4, 4}});
  expect_refused(EmbeddingGradient{10}, {{}, {}});
  expect_refused(AddPositions{}, {{2, 9, 4}, {8, 4}});
  expect_refused(AddPositions{false, 6}, {{2, 3, 4}, {8, 4}});
  expect_refused(AddPositions{false, -1}, {{2, 3, 4}, {8, 4}});
  expect_refused(PositionsGradient{2}, {{2, 3, 4}});
  expect_refused(PositionsGradient{8, 6}, {{2, 3, 4}});
  expect_refused(AddPositions{false, 0, true}, {{2, 3, 4}, {8, 4}, {2, 4}});
  expect_refused(AddPositions{true, 0, true}, {{2, 3, 4}, {8, 4}, {}, {2, 3}});
  expect_refused(PositionsGradient{8, 0, false, true}, {{2, 3, 4}, {3}});
  expect_refused(Attention{{}, 0, {}, 0, 0, true}, {{2, 3, 3, 4, 5}, {3}});
  expect_refused(AttentionGradient{{}, 0, {}, 0, 0, true},
                 {{2, 3, 3, 4, 5}, {2, 3, 4, 5}, {2, 4, 3}, {2, 3, 4, 5}, {3, 2}});
  const Shape scalar;
  expect_refused(Dropout{{1}, 0.5, {}, {{3, 8}, {0}}}, {{2, 3, 4}, scalar, scalar});
  expect_refused(Dropout{{1}, 0.5, {}, {{3, 8}, {0, 5}}}, {{2, 3, 4}, scalar, scalar});
  expect_refused(InitNormal{{1}, 1, {2, 3}, {{2}, {0}}}, {scalar});
  expect_refused(InitNormal{{1}, 1, {2, 3}, {{2, 6}, {0, -3}}}, {scalar});
  expect_refused(Digest{{1}, {{2}, {0}}}, {{2, 3}});
  expect_refused(LayerNorm{}, {{2, 4}, {5}, {4}});
  expect_refused(LayerNorm{}, {{}, {}, {}});
  expect_refused(LayerNormWeightGradient{}, {{}, {}, {}, {}});
  expect_refused(LayerNormMoments{3}, {{2, 3, 4}});
  expect_refused(LayerNormMoments{0}, {{2, 3, 4}});
  expect_refused(LayerNormApply{1e-5, false, 8}, {{2, 4}, {2, 3, 2}, {4}});
  expect_refused(LayerNormApply{1e-5, false, 8}, {{2, 4}, {3, 2, 2}, {4}});
  expect_refused(LayerNormApply{1e-5, false, 2}, {{2, 4}, {2, 2, 2}, {4}});
  expect_refused(LayerNormApply{1e-5, true, 8}, {{2, 4}, {2, 2, 2}, {4}, {5}});
  expect_refused(LayerNormGradientApply{4}, {{2, 4}, {4}, {2}, {2}, {2, 4}, {2}});
  expect_refused(AddBias{}, {{2, 3, 4}, {2}});
  expect_refused(AddBias{}, {{4}, {3, 4}});
  expect_refused(BiasGradient{4}, {{2, 3, 4}});
  expect_refused(Add{}, {{2}, {3}});
  expect_refused(Attention{}, {{2, 3, 2, 4, 5}});
  expect_refused(AttentionCached{2}, {{2, 3, 3, 4, 5}, {}});
  expect_refused(TakePosition{}, {{2, 3}, {}});
  expect_refused(CrossEntropy{}, {{2, 3, 10}, {2}});
  expect_refused(LogitMax{}, {{}});
  expect_refused(LogitSums{}, {{2, 3, 10}, {2, 3}, {2}});
  expect_refused(CrossEntropyMerge{}, {{2}, {2}, {3}, {2}});
  expect_refused(LossSum{}, {{2, 3}, {3, 2}});
}

TEST(OpShapes, AMatmulTakesAnyNumberOfDimsAndTransposes) {
  const auto shape = [](const Matmul& op, const Shape& a, const Shape& b) {
    return op.outputs(std::vector<Shape>{a, b}).at(0);
  };
  EXPECT_EQ(shape({2, 1}, {2, 3, 4}, {4, 3, 5, 6}), (Shape{2, 3, 3, 5, 6}));
  EXPECT_EQ(shape({2, 2, true}, {2, 3, 4}, {2, 3, 5}), (Shape{4, 5}));
  EXPECT_EQ(shape({2, 1, false, true}, {2, 3, 5, 6}, {4, 5, 6}), (Shape{2, 3, 4}));
}

TEST(OpFlops, AMatmulCountsTwoPerMultiplyAdd) {
  EXPECT_DOUBLE_EQ(flops(Matmul{2, 1}, std::vector<Shape>{{2, 3, 4}, {4, 5}, {2, 3, 5}}),
                   2.0 * 2 * 3 * 4 * 5);
  EXPECT_DOUBLE_EQ(flops(Matmul{2, 2, true}, std::vector<Shape>{{2, 3, 4}, {2, 3, 5}, {4, 5}}),
                   2.0 * 2 * 3 * 4 * 5);
}

TEST(OpFlops, CausalAttentionCountsThePairsUpToTheDiagonal) {
  // B 2, T 3, H 4, D 5: T (T+1) / 2 pairs per head, two products of D multiply-adds each.
  const double pairs = 2.0 * 4 * (3 * 4 / 2.0);
  EXPECT_DOUBLE_EQ(flops(Attention{}, std::vector<Shape>{{2, 3, 3, 4, 5}, {2, 3, 4, 5}, {2, 4, 3}}),
                   2 * 2.0 * 5 * pairs);
  EXPECT_DOUBLE_EQ(
      flops(AttentionGradient{},
            std::vector<Shape>{
                {2, 3, 3, 4, 5}, {2, 3, 4, 5}, {2, 4, 3}, {2, 3, 4, 5}, {2, 3, 3, 4, 5}}),
      5 * 2.0 * 5 * pairs);
}

TEST(OpTraffic, AnUpdateIsReadAndWritten) {
  const std::vector<Shape> shapes = {{8}, {8}, {8}};
  EXPECT_DOUBLE_EQ(traffic_bytes(Add{}, shapes, DType::f32), 3 * 8 * 4);
  const std::vector<Shape> matmul = {{2, 3}, {3, 4}, {2, 4}};
  EXPECT_DOUBLE_EQ(traffic_bytes(Matmul{1, 1, false, false, true}, matmul, DType::bf16),
                   (6 + 12 + 2 * 8) * 2);
  EXPECT_DOUBLE_EQ(traffic_bytes(Matmul{1, 1, false, false, true, true}, matmul, DType::bf16),
                   (6 + 12) * 2 + 2 * 8 * 4);
}

/// Type of each output of a row, computed in bf16.
std::vector<DType> output_types(const Op& op) {
  std::vector<DType> types;
  for (const Operand& operand : operands(op))
    if (operand.role != Role::read) types.push_back(element_dtype(operand.element, DType::bf16));
  return types;
}

TEST(OpElements, GradientsOfParametersHaveTheTypeOfTheirSums) {
  using Types = std::vector<DType>;
  EXPECT_EQ(output_types(EmbeddingGradient{}), Types{DType::f32});
  EXPECT_EQ(output_types(PositionsGradient{}), Types{DType::f32});
  EXPECT_EQ(output_types(BiasGradient{}), Types{DType::f32});
  EXPECT_EQ(output_types(LayerNormWeightGradient{}), (Types{DType::f32, DType::f32}));
  EXPECT_EQ(output_types(Matmul{}), Types{DType::bf16});
  EXPECT_EQ(output_types(with_unrounded(Matmul{})), Types{DType::f32});
  EXPECT_EQ(output_types(with_unrounded(Gelu{})), Types{DType::bf16}) << "others stay as they are";
  EXPECT_EQ(output_types(Cast{}), Types{DType::bf16});
  EXPECT_EQ(element_dtype(operands(Cast{})[0].element, DType::bf16), DType::f32);
}

}  // namespace
}  // namespace fourfold::op
