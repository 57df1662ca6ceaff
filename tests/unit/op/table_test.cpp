// Every row of the op table: its text, its operands, its factor letters; attributes that are
// hostile.
#include "op/table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "op/examples.h"
#include "support/chains.h"

namespace fourfold::op {
namespace {

/// Attributes that differ from the defaults, and shapes of reads that the op accepts.
const std::vector<Example>& samples() {
  static const std::vector<Example> list = examples();
  return list;
}

TEST(OpTable, the_examples_cover_every_row) {
  std::set<std::size_t> rows;
  for (const Example& sample : samples()) rows.insert(sample.op.index());
  for (std::size_t row = 0; row < num_rows; ++row)
    EXPECT_TRUE(rows.contains(row)) << "row " << row << " of the table";
}

TEST(OpTable, attributes_read_back_equal) {
  for (const Example& sample : samples())
    for (const std::optional<std::int64_t> micro : {std::optional<std::int64_t>(), {3}, {5}}) {
      const std::string text = attributes_text(sample.op, micro);
      EXPECT_EQ(parse_op(name(sample.op), text, micro), sample.op)
          << name(sample.op) << " " << text;
    }
}

TEST(OpTable, a_row_of_defaults_has_no_text) {
  for (const Op& op : all_rows()) {
    EXPECT_EQ(attributes_text(op, std::nullopt), "") << name(op);
    if (op.is<Fused>()) continue;  // of no pieces, which has no name
    EXPECT_EQ(parse_op(name(op), "", std::nullopt), op) << name(op);
  }
}

TEST(OpTable, a_window_of_the_tasks_micro_batch_prints_the_word_micro) {
  const Op op = Dropout{{1}, 0.5, {3, 16, 4}};
  EXPECT_EQ(attributes_text(op, 3),
            "stream 0x0000000000000001 rate 0.5 micro micro samples 16 first 4");
  EXPECT_EQ(attributes_text(op, 2),
            "stream 0x0000000000000001 rate 0.5 micro 3 samples 16 first 4");
  EXPECT_EQ(parse_op("dropout", attributes_text(op, 3), 7), Op(Dropout({{1}, 0.5, {7, 16, 4}})));
}

TEST(OpTable, a_window_prints_its_chunk_where_there_are_several) {
  const Op op = Dropout{{1}, 0.5, {3, 32, 4, 1}};
  EXPECT_EQ(attributes_text(op, 3),
            "stream 0x0000000000000001 rate 0.5 micro micro samples 32 first 4 chunk 1");
  EXPECT_EQ(parse_op("dropout", attributes_text(op, 3), 3), op);
  EXPECT_EQ(samples_of(op), (SampleWindow{3, 32, 4, 1}));
  EXPECT_EQ(samples_of(Dropout{{1}, 0, {3, 32, 4, 1}}), std::nullopt);
}

TEST(OpTable, an_op_for_a_chunk_counts_the_samples_of_the_whole_micro_batch) {
  EXPECT_EQ(with_chunk(Dropout{{1}, 0.5, {3, 16, 4}}, 1, 2), Op(Dropout{{1}, 0.5, {3, 32, 4, 1}}));
  for (const Example& sample : samples()) {
    EXPECT_EQ(with_chunk(sample.op, 0, 1), sample.op) << name(sample.op);
    EXPECT_EQ(with_chunk(sample.op, 1, 2) != sample.op, samples_of(sample.op).has_value())
        << name(sample.op);
  }
}

TEST(OpTable, a_window_of_a_tensor_prints_its_shape_and_place) {
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

TEST(OpTable, numbers_keep_their_last_bit) {
  for (const double value :
       {1.0 / 3, std::nextafter(1.0, 2.0), std::numeric_limits<double>::denorm_min(),
        std::numeric_limits<double>::max(), -1e-300, std::numeric_limits<double>::infinity()}) {
    const Op op = Fill{value, {}};
    EXPECT_EQ(parse_op("fill", attributes_text(op, std::nullopt), std::nullopt), op) << value;
  }
}

TEST(OpTable, a_list_of_numbers_prints_in_brackets_and_keeps_their_last_bits) {
  const Op op = Normalize{{0.5, 1.0 / 3}, {std::nextafter(1.0, 2.0), 2}};
  EXPECT_EQ(attributes_text(op, std::nullopt),
            "mean [0.5, 0.3333333333333333] deviation [1.0000000000000002, 2]");
  EXPECT_EQ(parse_op("normalize", attributes_text(op, std::nullopt), std::nullopt), op);
  EXPECT_EQ(parse_op("normalize", "mean []", std::nullopt), Op(Normalize{}));
  for (const char* text :
       {"mean 0.5", "mean [0.5", "mean [0.5, ]", "mean [, 0.5]", "mean [0.5,0.5]", "mean [a]",
        "mean [0.5 0.5]", "mean [0.5]]", "mean [", "mean"})
    EXPECT_THROW(parse_op("normalize", text, std::nullopt), UserError) << text;
}

TEST(OpTable, refuses_words_it_does_not_understand) {
  EXPECT_THROW(parse_op("gemm", "", std::nullopt), UserError);
  EXPECT_THROW(parse_op("contract", "rows 2", std::nullopt), UserError);
  EXPECT_THROW(parse_op("contract", "a_rows", std::nullopt), UserError);
  EXPECT_THROW(parse_op("contract", "a_rows two", std::nullopt), UserError);
  EXPECT_THROW(parse_op("contract", "a_rows 2x", std::nullopt), UserError);
  EXPECT_THROW(parse_op("contract", "accumulate yes", std::nullopt), UserError);
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

TEST(OpTable, reads_stand_before_outputs) {
  for (const Example& sample : samples()) {
    const Operands list = operands(sample.op);
    ASSERT_EQ(count_reads(sample.op), sample.reads.size()) << name(sample.op);
    for (std::size_t i = 0; i < list.size(); ++i)
      EXPECT_EQ(list[i].role == Role::read, i < sample.reads.size())
          << name(sample.op) << " " << list[i].name;
  }
}

TEST(OpTable, an_output_may_take_over_only_a_read_of_its_shape_and_dtype) {
  for (const Example& sample : samples()) {
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

TEST(OpTable, factors_have_a_letter_per_dim_and_one_size_per_letter) {
  for (const Example& sample : samples()) {
    std::vector<Shape> all = sample.reads;
    for (const Shape& shape : outputs(sample.op, sample.reads)) all.push_back(shape);
    if (!stands_for_itself(sample.op)) continue;
    const FactorRule rule = factors(sample.op, sample.reads);
    ASSERT_EQ(rule.operands.size(), all.size()) << name(sample.op);
    ASSERT_EQ(operands(sample.op).size(), all.size()) << name(sample.op);
    std::map<char, std::int64_t> sizes = rule.sizes;
    for (std::size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(rule.operands[i].size(), all[i].rank()) << name(sample.op) << " operand " << i;
      for (std::size_t dim = 0; dim < all[i].rank(); ++dim) {
        std::int64_t size = 1;
        for (const char factor : rule.operands[i][dim])
          size *= rule.operands[i][dim].size() == 1
                      ? sizes.try_emplace(factor, all[i][dim]).first->second
                      : rule.sizes.at(factor);
        EXPECT_EQ(size, all[i][dim]) << name(sample.op) << " operand " << i << " dim " << dim;
      }
    }
  }
}

TEST(OpTable, a_chain_or_list_of_rows_stands_for_its_pieces) {
  for (const Example& sample : samples()) {
    const std::vector<Piece> list = pieces(sample.op);
    const bool is_chain = sample.op.is<Fused>();
    ASSERT_EQ(list.size() > 1, !stands_for_itself(sample.op)) << name(sample.op);
    std::vector<Shape> all = sample.reads;
    for (const Shape& shape : outputs(sample.op, sample.reads)) all.push_back(shape);
    const Operands whole = operands(sample.op);
    double work = 0;
    std::set<std::size_t> seen, written;
    for (const Piece& piece : list) {
      const Operands own = operands(piece.op);
      ASSERT_EQ(own.size(), piece.operands.size());
      std::vector<Shape> shapes;
      for (std::size_t i = 0; i < own.size(); ++i) {
        const std::size_t operand = piece.operands[i];
        const bool from_piece = own[i].role != Role::write && written.contains(operand);
        if (!is_chain && !stands_for_itself(sample.op)) {
          EXPECT_EQ(own[i].name, whole[operand].name);
        }
        if (!from_piece) {
          EXPECT_EQ(own[i].role, whole[operand].role) << name(sample.op);
        }
        EXPECT_EQ(own[i].element, whole[operand].element);
        shapes.push_back(all[operand]);
        seen.insert(operand);
      }
      const std::size_t reads = count_reads(piece.op);
      written.insert(piece.operands.begin() + static_cast<std::ptrdiff_t>(reads),
                     piece.operands.end());
      const std::vector<Shape> results(shapes.begin() + static_cast<std::ptrdiff_t>(reads),
                                       shapes.end());
      EXPECT_EQ(outputs(piece.op, Shapes(shapes).first(reads)), results) << name(sample.op);
      work += flops(piece.op, shapes);
    }
    EXPECT_EQ(seen.size(), whole.size()) << name(sample.op);
    EXPECT_EQ(work, flops(sample.op, all)) << name(sample.op);
  }
  const AdamWList two{{0.8, 0.99, 1e-9, 0.1}, 2, 1};
  EXPECT_EQ(pieces(two)[0].op, Op(AdamW{0.8, 0.99, 1e-9, 0.1}));
  EXPECT_EQ(pieces(two)[1].op, Op(AdamW{0.8, 0.99, 1e-9, 0, true}));
  EXPECT_EQ(pieces(MovingAverageList{0.75, 2})[1].op, Op(MovingAverage{0.75}));
  const SgdList plain{{0.8, 0.1, true}, 2, 1};
  EXPECT_EQ(pieces(plain)[0].op, Op(Sgd{0.8, 0.1, true}));
  EXPECT_EQ(pieces(plain)[1].op, Op(Sgd{0.8, 0, true, true}));
}

TEST(OpTable, a_list_has_as_many_operands_as_a_program_can_have_whatever_its_text_claims) {
  for (const std::int64_t claimed : {std::int64_t{-5}, std::int64_t{1} << 60}) {
    for (const Op& list : {Op(AdamWList::of({}, claimed, 0)), Op(SgdList::of({}, claimed, 0)),
                           Op(CastList{.tensors = claimed}), Op(SquaredNorm{.tensors = claimed}),
                           Op(MovingAverageList{.tensors = claimed})})
      EXPECT_LE(operands(list).size(), 400005U);
  }
}

TEST(OpTable, a_replicated_op_gives_replicated_outputs) {
  for (const Example& sample : samples()) {
    if (!stands_for_itself(sample.op)) continue;
    const std::size_t count = operands(sample.op).size() - sample.reads.size();
    const auto result =
        propagate(factors(sample.op, sample.reads), std::vector<Sharding>(sample.reads.size()),
                  std::vector<Sharding>(count), Mesh{"main", {{"x", 2}}, {}});
    EXPECT_EQ(result.problem, "") << name(sample.op);
    EXPECT_EQ(result.outputs, std::vector<Sharding>(count)) << name(sample.op);
  }
}

TEST(OpTable, scalars_instead_of_tensors_are_a_mistake_or_have_a_rule) {
  for (const Example& sample : samples()) {
    const std::vector<Shape> scalars(sample.reads.size());
    if (judge_outputs(sample.op, scalars).mistake() != nullptr) continue;
    if (!stands_for_itself(sample.op)) continue;
    EXPECT_NO_THROW(factors(sample.op, scalars)) << name(sample.op);
  }
}

TEST(OpTable, every_row_states_the_class_of_its_work) {
  EXPECT_EQ(work_class(Contract{}), WorkClass::product);
  EXPECT_EQ(work_class(product_gelu_gradient()), WorkClass::product);
  EXPECT_EQ(work_class(ConvolutionWeightGradient{}), WorkClass::product);
  EXPECT_FALSE(product_of(Convolution{}).has_value()) << "not one of matrices";
  EXPECT_EQ(work_class(AttentionGradient{}), WorkClass::core);
  EXPECT_EQ(work_class(AdamWList{}), WorkClass::optimizer);
  for (const Example& sample : samples()) {
    if (product_of(sample.op)) {
      EXPECT_EQ(work_class(sample.op), WorkClass::product) << name(sample.op);
    }
    bool changes_weights = false;
    for (const Operand& operand : operands(sample.op))
      changes_weights = changes_weights || operand.state == State::weight;
    EXPECT_EQ(work_class(sample.op) == WorkClass::optimizer, changes_weights) << name(sample.op);
  }
}

TEST(OpTable, accumulating_turns_writes_into_updates) {
  for (const Example& sample : samples()) {
    if (!can_accumulate(sample.op)) {
      EXPECT_THROW(with_accumulate(sample.op, true), InternalError) << name(sample.op);
      continue;
    }
    for (const bool accumulate : {true, false}) {
      const Operands list = operands(with_accumulate(sample.op, accumulate));
      for (std::size_t i = sample.reads.size(); i < list.size(); ++i)
        EXPECT_EQ(list[i].role,
                  accumulate || list[i].state != State::none ? Role::update : Role::write)
            << name(sample.op);
    }
  }
}

TEST(OpTable, only_ops_with_a_window_depend_on_the_micro_batch) {
  for (const Example& sample : samples()) {
    const bool changes = with_micro(sample.op, 5) != sample.op;
    EXPECT_EQ(changes,
              attributes_text(sample.op, std::nullopt).find("micro 3") != std::string::npos)
        << name(sample.op);
  }
}

// --- wrong shapes, flops

void expect_refused(const Op& op, const std::vector<Shape>& reads) {
  const Outputs made = judge_outputs(op, reads);
  ASSERT_NE(made.mistake(), nullptr) << name(op);
  EXPECT_FALSE(made.mistake()->sentence.empty()) << name(op);
  EXPECT_THROW(outputs(op, reads), InternalError) << name(op);
}

TEST(OpShapes, wrong_inputs_are_refused) {
  expect_refused(Contract{}, {{2, 3}, {4, 5}});
  expect_refused(Contract{3, 1}, {{2, 3}, {3, 5}});
  expect_refused(Contract{-1, 1}, {{2, 3}, {3, 5}});
  expect_refused(Contract{.batch = 1}, {{2, 3, 4}, {3, 4, 5}});
  expect_refused(Contract{.batch = -1}, {{2, 3}, {3, 5}});
  expect_refused(Contract{.batch = 2}, {{2, 3}, {2, 3}});
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
  expect_refused(CountCorrect{}, {{2, 3, 10}, {2, 3}, {2}});
}

TEST(OpShapes, pictures_that_do_not_fit_are_refused) {
  const Shape x{2, 5, 6, 3};
  expect_refused(Convolution{}, {x, {4, 3, 3, 2}});
  expect_refused(Convolution{}, {x, {4, 3, 3}});
  expect_refused(Convolution{}, {x, {4, 6, 3, 3}});
  expect_refused(Convolution{1, 1}, {x, {4, 8, 3, 3}});
  expect_refused(Convolution{1, 1}, {x, {4, 3, 9, 3}});
  expect_refused(Convolution{0, 1}, {x, {4, 3, 3, 3}});
  expect_refused(Convolution{1, -1}, {x, {4, 3, 3, 3}});
  expect_refused(Convolution{}, {x, {4, 0, 3, 3}});
  expect_refused(Convolution{1, std::int64_t{1} << 62}, {x, {4, 3, 3, 3}});
  expect_refused(ConvolutionGradient{5, 6, 1, 1}, {{2, 5, 5, 4}, {4, 3, 3, 3}});
  expect_refused(ConvolutionGradient{5, 6, 1, 1}, {{2, 5, 6, 3}, {4, 3, 3, 3}});
  expect_refused(ConvolutionGradient{-5, 6, 1, 8}, {{2, 9, 20, 4}, {4, 3, 3, 3}});
  expect_refused(ConvolutionWeightGradient{3, 3, 1, 0}, {x, {2, 5, 6, 4}});
  expect_refused(ConvolutionWeightGradient{3, 3, 1, 1}, {x, {3, 5, 6, 4}});
  expect_refused(ConvolutionWeightGradient{0, 0, 1, 1}, {x, {2, 8, 9, 4}});
  expect_refused(MaxPool{6, 1}, {x});
  expect_refused(MaxPool{2, 0}, {x});
  expect_refused(MaxPool{}, {{5, 6, 3}});
  expect_refused(MaxPoolGradient{}, {x, {2, 3, 3, 3}});
  expect_refused(AveragePool{0, 2}, {x});
  expect_refused(AveragePoolGradient{5, 7}, {{2, 2, 4, 3}});
  expect_refused(Normalize{{0.5}, {0.5}}, {x});
  expect_refused(Normalize{{0, 0, 0}, {1, 1}}, {x});
  expect_refused(Normalize{{0, 0, 0}, {1, 0, 1}}, {x});
  expect_refused(Normalize{{0, 0, 0}, {1, 1, 1}}, {{5, 6, 3}});
}

TEST(OpShapes, norms_of_groups_that_do_not_fit_are_refused) {
  const Shape x{2, 5, 6, 8}, channels{8, 2, 2}, groups{2, 4, 2};
  constexpr std::int64_t huge = std::int64_t{1} << 62;
  expect_refused(GroupNormMoments{}, {{8}});
  expect_refused(GroupNormMomentsGradient{}, {x, {8, 2, 2}, {8, 1, 2}});
  expect_refused(GroupNormStatistics{3, 1, 30}, {channels});
  expect_refused(GroupNormStatistics{0, 1, 30}, {channels});
  expect_refused(GroupNormStatistics{4, 1, 0}, {channels});
  expect_refused(GroupNormStatistics{4, 2, 30}, {channels, {8, 3, 2}});
  expect_refused(GroupNormStatistics{4, 1, 30}, {{8, 2}});
  expect_refused(GroupNormStatisticsGradient{4, 8, 0}, {groups, groups, channels});
  expect_refused(GroupNormStatisticsGradient{4, 8, 30}, {groups, {2, 3, 2}, channels});
  expect_refused(GroupNormApply{4, 8, 1}, {x, groups, {8}, {8}});
  expect_refused(GroupNormApply{4, 16, 0, 9}, {x, groups, {8}, {8}});
  expect_refused(GroupNormApply{4, 16, huge, huge}, {x, groups, {8}, {8}});
  expect_refused(GroupNormApply{4, 16, -1}, {x, groups, {8}, {8}});
  expect_refused(GroupNormApply{3, 8}, {x, {2, 3, 2}, {8}, {8}});
  expect_refused(GroupNormApply{4, 8}, {x, groups, {8}, {7}});
  expect_refused(GroupNormSums{4, 8}, {x, groups, {2, 5, 6, 7}});
  expect_refused(GroupNormWeightGradient{}, {{8, 2}});
  expect_refused(GroupNormGroupSums{4, 8}, {channels, groups, {7}});
  expect_refused(GroupNormApplyGradient{4, 8}, {{2, 4}, {8}, x});
}

TEST(OpShapes, what_numbers_of_samples_do_to_other_pixels_is_refused) {
  const Shape x{2, 5, 6, 8};
  expect_refused(TimeEmbedding{0, 9}, {{2}});
  expect_refused(TimeEmbedding{4, 0}, {{2}});
  expect_refused(TimeEmbedding{4, 9, 1, -1}, {{2}});
  expect_refused(TimeEmbedding{4, 9}, {{2, 1}});
  expect_refused(ScaleShift{}, {x, {2, 8}});
  expect_refused(ScaleShiftGradient{}, {{2, 2, 7}, x});
  expect_refused(ScaleShiftSums{}, {x, {2, 5, 6, 7}});
  expect_refused(AddToPixels{}, {x, {2, 7}});
  expect_refused(PixelSums{}, {{8}});
  expect_refused(Upsample{0}, {x});
  expect_refused(Upsample{std::int64_t{1} << 62}, {x});
  expect_refused(Upsample{}, {{5, 6, 8}});
  expect_refused(UpsampleGradient{}, {x});
  expect_refused(UpsampleGradient{0}, {x});
}

TEST(OpShapes, a_number_of_reads_that_is_not_the_rows_is_refused) {
  for (const Example& sample : samples()) {
    std::vector<Shape> more = sample.reads;
    more.emplace_back();
    expect_refused(sample.op, more);
    if (!sample.reads.empty())
      expect_refused(sample.op, {sample.reads.begin(), sample.reads.end() - 1});
  }
}

TEST(OpShapes, tensors_of_more_elements_than_can_be_counted_are_refused) {
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  expect_refused(Gelu{}, {{huge, huge}});
  expect_refused(Gelu{}, {{huge, 0, huge}});
  expect_refused(Fill{0, {huge, huge}}, {});
  expect_refused(Contract{}, {{huge, 1}, {1, huge}});
  expect_refused(EmbeddingGradient{-1}, {{2}, {2, 3}});
  expect_refused(AttentionCached{huge}, {{huge, 1, 3, 1, 1}, {}});
}

// --- claims of any kind

/// Draws what a text can claim: sizes and numbers that are small, equal to others, or extreme.
class Claims {
 public:
  explicit Claims(std::mt19937_64& random) : random_(random) {}

  std::int64_t number() {
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
    constexpr std::int64_t extremes[] = {-1,  -most - 1, most, most - 1, std::int64_t{1} << 62,
                                         1000};
    return below(8) == 0 ? extremes[below(6)] : static_cast<std::int64_t>(below(6));
  }
  Shape shape() {
    if (!seen_.empty() && below(2) == 0) return seen_[below(seen_.size())];
    Shape made;
    for (std::size_t rank = below(7); rank > 0; --rank)
      made.push_back(std::max<std::int64_t>(number(), 0));  // a text has no others
    seen_.push_back(made);
    return made;
  }
  void operator()(std::string_view, bool& value) { value = below(2) == 0; }
  void operator()(std::string_view, std::int64_t& value) { value = number(); }
  void operator()(std::string_view, double& value) {
    constexpr double values[] = {0, 0.5, -1, 1e308, std::numeric_limits<double>::quiet_NaN()};
    value = values[below(5)];
  }
  void operator()(std::string_view, RandomStream& value) { value.id = random_(); }
  void operator()(std::string_view, Shape& value) { value = shape(); }
  void operator()(std::string_view, Numbers& value) {
    value.resize(below(4));
    for (double& number : value) (*this)("", number);
  }
  void operator()(std::string_view, SampleWindow& window) {
    window = {number(), number(), number(), number()};
  }
  void operator()(std::string_view, TensorWindow& window) { window = {shape(), shape()}; }

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

 private:
  std::mt19937_64& random_;
  std::vector<Shape> seen_;
};

TEST(OpShapes, no_claim_of_a_text_makes_a_shape_rule_throw) {
  std::size_t accepted = 0;
  std::mt19937_64 random(1);  // one for all draws: to seed it takes longer than a draw
  for (const Example& sample : samples())
    for (std::uint64_t draw = 0; draw < 2000; ++draw) {
      Claims claims(random);
      Op op = sample.op;
      if (draw % 4 != 0) {
        visit_row([&](auto& row) { for_each_attribute(row, claims); }, op);
        // A list of a hundred thousand tensors takes its time.
        visit_row(
            [&](auto& row) {
              if constexpr (requires { row.tensors; })
                row.tensors = static_cast<std::int64_t>(claims.below(4));
            },
            op);
      }
      std::vector<Shape> reads = sample.reads;
      reads.resize(claims.below(8) == 0 ? claims.below(9) : count_reads(op));
      for (Shape& shape : reads)
        if (claims.below(draw % 3 + 1) != 0) shape = claims.shape();
      ASSERT_NO_THROW({
        const Outputs made = judge_outputs(op, reads);
        if (made.mistake() != nullptr) continue;
        std::vector<Shape> all = reads;
        all.insert(all.end(), made.shapes().begin(), made.shapes().end());
        ASSERT_EQ(all.size(), operands(op).size());
        ++accepted;
        flops(op, all);
        traffic_bytes(op, all, DType::bf16);
        if (stands_for_itself(op)) factors(op, reads);
      }) << name(op)
         << " " << attributes_text(op, std::nullopt) << ", draw " << draw;
    }
  EXPECT_GT(accepted, samples().size() * 100) << "claims are not all nonsense";
}

TEST(OpShapes, a_contract_takes_any_number_of_dims_and_transposes) {
  const auto shape = [](const Contract& op, const Shape& a, const Shape& b) {
    return outputs(op, std::vector<Shape>{a, b}).at(0);
  };
  EXPECT_EQ(shape({2, 1}, {2, 3, 4}, {4, 3, 5, 6}), (Shape{2, 3, 3, 5, 6}));
  EXPECT_EQ(shape({2, 2, true}, {2, 3, 4}, {2, 3, 5}), (Shape{4, 5}));
  EXPECT_EQ(shape({2, 1, false, true}, {2, 3, 5, 6}, {4, 5, 6}), (Shape{2, 3, 4}));
  EXPECT_EQ(shape({.a_rows = 2, .batch = 1}, {7, 2, 3, 4}, {7, 4, 5}), (Shape{7, 2, 3, 5}));
}

TEST(OpFlops, a_contract_counts_two_per_multiply_add) {
  EXPECT_DOUBLE_EQ(flops(Contract{2, 1}, std::vector<Shape>{{2, 3, 4}, {4, 5}, {2, 3, 5}}),
                   2.0 * 2 * 3 * 4 * 5);
  EXPECT_DOUBLE_EQ(flops(Contract{2, 2, true}, std::vector<Shape>{{2, 3, 4}, {2, 3, 5}, {4, 5}}),
                   2.0 * 2 * 3 * 4 * 5);
}

TEST(OpFlops, a_product_of_a_batch_counts_each_of_its_products) {
  const std::vector<Shape> shapes = {{2, 3, 4, 5}, {2, 3, 6, 5}, {2, 3, 4, 6}};
  const Contract op{.transpose_b = true, .batch = 2};
  EXPECT_DOUBLE_EQ(flops(op, shapes), 2.0 * 6 * 4 * 5 * 6);
  const ProductSizes sizes = product_sizes(op, shapes);
  EXPECT_EQ(sizes.count, 6);
  EXPECT_EQ(sizes.m, 4);
  EXPECT_EQ(sizes.n, 6);
  EXPECT_EQ(sizes.k, 5);
}

TEST(OpFlops, a_convolution_counts_two_per_multiply_add_and_so_do_its_gradients) {
  const Shape x{2, 5, 6, 3}, weight{4, 3, 3, 3}, y{2, 3, 3, 4};
  const double expected = 2.0 * (2 * 3 * 3 * 4) * (3 * 3 * 3);
  EXPECT_DOUBLE_EQ(flops(Convolution{2, 1}, std::vector<Shape>{x, weight, y}), expected);
  EXPECT_DOUBLE_EQ(flops(ConvolutionGradient{5, 6, 2, 1}, std::vector<Shape>{y, weight, x}),
                   expected);
  EXPECT_DOUBLE_EQ(flops(ConvolutionWeightGradient{3, 3, 2, 1}, std::vector<Shape>{x, y, weight}),
                   expected);
}

TEST(OpFlops, causal_attention_counts_the_pairs_up_to_the_diagonal) {
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

TEST(OpTraffic, an_update_is_read_and_written) {
  const std::vector<Shape> shapes = {{8}, {8}, {8}};
  EXPECT_DOUBLE_EQ(traffic_bytes(Add{}, shapes, DType::f32), 3 * 8 * 4);
  const std::vector<Shape> contract = {{2, 3}, {3, 4}, {2, 4}};
  EXPECT_DOUBLE_EQ(traffic_bytes(Contract{1, 1, false, false, true}, contract, DType::bf16),
                   (6 + 12 + 2 * 8) * 2);
  EXPECT_DOUBLE_EQ(traffic_bytes(Contract{1, 1, false, false, true, true}, contract, DType::bf16),
                   (6 + 12) * 2 + 2 * 8 * 4);
}

/// Type of each output of a row, computed in bf16.
std::vector<DType> output_types(const Op& op) {
  std::vector<DType> types;
  for (const Operand& operand : operands(op))
    if (operand.role != Role::read) types.push_back(element_dtype(operand.element, DType::bf16));
  return types;
}

TEST(OpElements, gradients_of_parameters_have_the_type_of_their_sums) {
  using Types = std::vector<DType>;
  EXPECT_EQ(output_types(EmbeddingGradient{}), Types{DType::f32});
  EXPECT_EQ(output_types(PositionsGradient{}), Types{DType::f32});
  EXPECT_EQ(output_types(BiasGradient{}), Types{DType::f32});
  EXPECT_EQ(output_types(LayerNormWeightGradient{}), (Types{DType::f32, DType::f32}));
  EXPECT_EQ(output_types(Contract{}), Types{DType::bf16});
  EXPECT_EQ(output_types(with_unrounded(Contract{})), Types{DType::f32});
  EXPECT_EQ(output_types(with_unrounded(ConvolutionWeightGradient{})), Types{DType::f32});
  EXPECT_EQ(output_types(with_unrounded(Gelu{})), Types{DType::bf16}) << "others stay as they are";
  EXPECT_EQ(output_types(Cast{}), Types{DType::bf16});
  EXPECT_EQ(element_dtype(operands(Cast{})[0].element, DType::bf16), DType::f32);
  EXPECT_EQ(output_types(Widen{}), Types{DType::f32});
  EXPECT_EQ(element_dtype(operands(Widen{})[0].element, DType::bf16), DType::bf16);
}

}  // namespace
}  // namespace fourfold::op
