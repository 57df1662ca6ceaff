// Rows on pictures, and the count of correct labels: how far a kernel goes, and what a cut makes of
// their operands.
#include "op/pictures.h"

#include <gtest/gtest.h>

#include "op/table.h"

namespace fourfold::op {
namespace {

Shape shape_of(const Op& op, const std::vector<Shape>& reads) {
  return outputs(op, reads).at(0);
}

TEST(Pictures, a_kernel_goes_as_far_as_it_fits_into_the_padded_picture) {
  const Shape x{2, 5, 8, 3};
  EXPECT_EQ(shape_of(Convolution{}, {x, {4, 3, 3, 3}}), (Shape{2, 3, 6, 4}));
  EXPECT_EQ(shape_of(Convolution{1, 1}, {x, {4, 3, 3, 3}}), (Shape{2, 5, 8, 4}));
  EXPECT_EQ(shape_of(Convolution{2, 1}, {x, {4, 3, 3, 3}}), (Shape{2, 3, 4, 4}));
  EXPECT_EQ(shape_of(Convolution{3, 2}, {x, {1, 5, 1, 3}}), (Shape{2, 2, 4, 1}));
  EXPECT_EQ(shape_of(Convolution{1, 1}, {x, {1, 7, 10, 3}}), (Shape{2, 1, 1, 1}));
  EXPECT_EQ(shape_of(ConvolutionGradient{5, 8, 2, 1}, {{2, 3, 4, 4}, {4, 3, 3, 3}}), x);
  EXPECT_EQ(shape_of(ConvolutionWeightGradient{3, 3, 2, 1}, {x, {2, 3, 4, 4}}),
            (Shape{4, 3, 3, 3}));
  EXPECT_EQ(shape_of(MaxPool{}, {x}), (Shape{2, 2, 4, 3}));
  EXPECT_EQ(shape_of(AveragePool{3, 2}, {x}), (Shape{2, 2, 3, 3}));
  EXPECT_EQ(shape_of(AveragePoolGradient{5, 8, 3, 2}, {{2, 2, 3, 3}}), x);
}

constexpr std::size_t uncut = 9;

/// How the output lies on a mesh of two ranks where each read is cut in the dim named.
std::string output_of(const Op& op, const std::vector<Shape>& reads,
                      const std::vector<std::size_t>& dims) {
  const Mesh mesh{"main", {{"x", 2}}, {}};
  std::vector<Sharding> shardings(reads.size());
  for (std::size_t i = 0; i < reads.size(); ++i) {
    if (dims[i] == uncut) continue;
    shardings[i].dims.resize(reads[i].rank());
    shardings[i].dims[dims[i]] = {{AxisId(0), std::nullopt}};
  }
  const auto made = propagate(factors(op, reads), shardings,
                              std::vector<Sharding>(operands(op).size() - reads.size()), mesh);
  if (!made.problem.empty()) return "refused";
  return to_string(shape_of(op, reads), made.outputs.at(0), mesh);
}

TEST(Pictures, a_convolution_is_cut_in_samples_and_channels_and_never_in_space) {
  const Shape x{2, 5, 6, 4}, weight{8, 3, 3, 4}, y{2, 3, 4, 8};
  EXPECT_EQ(output_of(Convolution{}, {x, weight}, {0, uncut}), "[2 (x), 3, 4, 8]");
  EXPECT_EQ(output_of(Convolution{}, {x, weight}, {3, 3}), "[2, 3, 4, 8] partial sum(x)");
  EXPECT_EQ(output_of(Convolution{}, {x, weight}, {uncut, 0}), "[2, 3, 4, 8 (x)]");
  EXPECT_EQ(output_of(ConvolutionGradient{5, 6}, {y, weight}, {3, 0}),
            "[2, 5, 6, 4] partial sum(x)");
  EXPECT_EQ(output_of(ConvolutionGradient{5, 6}, {y, weight}, {uncut, 3}), "[2, 5, 6, 4 (x)]");
  EXPECT_EQ(output_of(ConvolutionWeightGradient{3, 3}, {x, y}, {0, 0}),
            "[8, 3, 3, 4] partial sum(x)");
  EXPECT_EQ(output_of(ConvolutionWeightGradient{3, 3}, {x, y}, {3, uncut}), "[8, 3, 3, 4 (x)]");
  for (const std::size_t space : {1U, 2U}) {
    EXPECT_EQ(output_of(Convolution{}, {x, weight}, {space, uncut}), "refused");
    EXPECT_EQ(output_of(Convolution{}, {x, weight}, {uncut, space}), "refused");
    EXPECT_EQ(output_of(ConvolutionGradient{5, 6}, {y, weight}, {space, uncut}), "refused");
    EXPECT_EQ(output_of(ConvolutionWeightGradient{3, 3}, {x, y}, {space, space}), "refused");
  }
}

TEST(Pictures, a_pooling_is_cut_in_samples_and_channels_and_never_in_space) {
  const Shape x{2, 4, 6, 4}, y{2, 2, 3, 4};
  EXPECT_EQ(output_of(MaxPool{}, {x}, {3}), "[2, 2, 3, 4 (x)]");
  EXPECT_EQ(output_of(MaxPoolGradient{}, {x, y}, {0, 0}), "[2 (x), 4, 6, 4]");
  EXPECT_EQ(output_of(AveragePool{}, {x}, {0}), "[2 (x), 2, 3, 4]");
  EXPECT_EQ(output_of(AveragePoolGradient{4, 6}, {y}, {3}), "[2, 4, 6, 4 (x)]");
  for (const std::size_t space : {1U, 2U}) {
    EXPECT_EQ(output_of(MaxPool{}, {x}, {space}), "refused");
    EXPECT_EQ(output_of(MaxPoolGradient{}, {x, y}, {space, space}), "refused");
    EXPECT_EQ(output_of(AveragePool{}, {x}, {space}), "refused");
    EXPECT_EQ(output_of(AveragePoolGradient{4, 6}, {y}, {space}), "refused");
  }
}

TEST(Pictures, a_larger_picture_is_cut_in_samples_and_channels_and_never_in_space) {
  EXPECT_EQ(shape_of(Upsample{3}, {{2, 4, 5, 3}}), (Shape{2, 12, 15, 3}));
  EXPECT_EQ(shape_of(UpsampleGradient{3}, {{2, 12, 15, 3}}), (Shape{2, 4, 5, 3}));
  EXPECT_EQ(output_of(Upsample{}, {{2, 4, 6, 4}}, {3}), "[2, 8, 12, 4 (x)]");
  EXPECT_EQ(output_of(UpsampleGradient{}, {{2, 4, 6, 4}}, {0}), "[2 (x), 2, 3, 4]");
  EXPECT_EQ(output_of(Upsample{}, {{2, 4, 6, 4}}, {1}), "refused");
  EXPECT_EQ(output_of(UpsampleGradient{}, {{2, 4, 6, 4}}, {2}), "refused");
}

TEST(GroupNorm, takes_cut_channels_and_merges_those_of_all) {
  const Shape x{2, 3, 5, 8}, channels{8, 2, 2}, groups{2, 4, 2};
  EXPECT_EQ(output_of(GroupNormMoments{}, {x}, {3}), "[8 (x), 2, 2]");
  EXPECT_EQ(output_of(GroupNormMoments{}, {x}, {0}), "[8, 2 (x), 2]");
  EXPECT_EQ(output_of(GroupNormMoments{}, {x}, {1}), "refused");
  const GroupNormStatistics statistics{4, 2, 15};
  EXPECT_EQ(output_of(statistics, {channels, channels}, {1, 1}), "[2 (x), 4, 2]");
  EXPECT_EQ(output_of(statistics, {channels, channels}, {0, uncut}), "refused");
  EXPECT_EQ(output_of(statistics, {channels, channels}, {uncut, 0}), "refused");
  EXPECT_EQ(output_of(GroupNormApply{4, 8}, {x, groups, {8}, {8}}, {3, uncut, 0, 0}),
            "[2, 3, 5, 8 (x)]");
  EXPECT_EQ(output_of(GroupNormSums{4, 8}, {x, groups, x}, {3, uncut, 3}), "[8 (x), 2, 2]");
  EXPECT_EQ(output_of(GroupNormGroupSums{4, 8}, {channels, groups, {8}}, {0, uncut, 0}),
            "[2, 4, 2] partial sum(x)");
  EXPECT_EQ(output_of(GroupNormWeightGradient{}, {channels}, {1}), "[8] partial sum(x)");
  EXPECT_EQ(output_of(GroupNormStatisticsGradient{4, 8, 15}, {groups, groups, channels},
                      {uncut, uncut, 0}),
            "[8 (x), 2, 2]");
  EXPECT_EQ(output_of(GroupNormMomentsGradient{}, {x, channels, channels}, {3, 0, 0}),
            "[2, 3, 5, 8 (x)]");
}

TEST(Conditioning, acts_on_cut_channels_and_sums_over_pixels) {
  const Shape x{2, 3, 5, 8};
  EXPECT_EQ(output_of(ScaleShift{}, {x, {2, 2, 8}}, {3, 2}), "[2, 3, 5, 8 (x)]");
  EXPECT_EQ(output_of(ScaleShift{}, {x, {2, 2, 8}}, {uncut, 1}), "refused");
  EXPECT_EQ(output_of(ScaleShiftSums{}, {x, x}, {1, 1}), "[2, 2, 8] partial sum(x)");
  EXPECT_EQ(output_of(AddToPixels{}, {x, {2, 8}}, {0, 0}), "[2 (x), 3, 5, 8]");
  EXPECT_EQ(output_of(PixelSums{}, {x}, {2}), "[2, 8] partial sum(x)");
  EXPECT_EQ(output_of(TimeEmbedding{4, 9}, {{2}}, {0}), "[2 (x), 4]");
}

TEST(Pictures, bytes_are_cut_in_all_but_the_channels) {
  const Op op = Normalize{{0, 0}, {1, 1}};
  EXPECT_EQ(output_of(op, {{2, 4, 6, 2}}, {0}), "[2 (x), 4, 6, 2]");
  EXPECT_EQ(output_of(op, {{2, 4, 6, 2}}, {1}), "[2, 4 (x), 6, 2]");
  EXPECT_EQ(output_of(op, {{2, 4, 6, 2}}, {3}), "refused");
}

TEST(CountCorrect, is_a_term_of_a_sum_where_rows_or_columns_are_cut) {
  const std::vector<Shape> reads = {{4, 6}, {4}, {4}};
  EXPECT_EQ(output_of(CountCorrect{}, reads, {1, uncut, uncut}), "[] partial sum(x)");
  EXPECT_EQ(output_of(CountCorrect{}, reads, {0, 0, 0}), "[] partial sum(x)");
}

}  // namespace
}  // namespace fourfold::op
