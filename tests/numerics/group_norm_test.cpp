// Group normalisation as a whole: what its rows make together, of one part and of several, on one
// rank and on many.
#include <gtest/gtest.h>

#include <cmath>

#include "base/format.h"
#include "numerics/harness.h"
#include "numerics/parts.h"

namespace fourfold::numerics {
namespace {

constexpr double epsilon = 1e-5;
constexpr std::int64_t samples = 2, height = 3, width = 2, pixels = height * width;

/// A norm of parts with these channels; what every function here takes.
struct Norm {
  std::vector<std::int64_t> channels;
  std::int64_t groups;

  std::int64_t all_channels() const {
    std::int64_t all = 0;
    for (const std::int64_t of_part : channels) all += of_part;
    return all;
  }
  std::int64_t before(std::size_t part) const {
    std::int64_t before = 0;
    for (std::size_t i = 0; i < part; ++i) before += channels[i];
    return before;
  }
  Shape shape(std::size_t part) const { return {samples, height, width, channels[part]}; }
  op::GroupNormStatistics statistics() const {
    return {groups, static_cast<std::int64_t>(channels.size()), pixels, epsilon};
  }
  template <class Row>
  Row of_part(std::size_t part) const {
    return {.groups = groups, .width = all_channels(), .before = before(part)};
  }
  /// x, gain and bias of each part, one after another.
  Arrays reads(double offset = 0) const {
    Arrays reads;
    for (std::size_t part = 0; part < channels.size(); ++part) {
      reads.push_back(uniform(shape(part), format("x{}", part), offset - 1, offset + 1));
      reads.push_back(uniform({channels[part]}, format("gain{}", part)));
      reads.push_back(uniform({channels[part]}, format("bias{}", part)));
    }
    return reads;
  }
};

Array statistics_of(const Norm& norm, const Arrays& reads, const Backend& backend) {
  Arrays moments;
  for (std::size_t part = 0; part < norm.channels.size(); ++part)
    moments.push_back(apply(op::GroupNormMoments{}, backend, {reads[3 * part]}).values[0]);
  return apply(norm.statistics(), backend, moments).values[0];
}

/// y of each part.
Arrays normalised(const Norm& norm, const Arrays& reads, const Backend& backend = exact) {
  const Array statistics = statistics_of(norm, reads, backend);
  Arrays made;
  for (std::size_t part = 0; part < norm.channels.size(); ++part)
    made.push_back(apply(norm.of_part<op::GroupNormApply>(part), backend,
                         {reads[3 * part], statistics, reads[3 * part + 1], reads[3 * part + 2]})
                       .values[0]);
  return made;
}

/// The gradients of x, gain and bias of each part, as graph/gradients.cpp puts the rows together.
Arrays gradients(const Norm& norm, const Arrays& reads, const Arrays& y_grad) {
  const Array statistics = statistics_of(norm, reads, exact);
  Array statistics_grad = filled(statistics.shape, 0);
  std::vector<Arrays> weights;
  for (std::size_t part = 0; part < norm.channels.size(); ++part) {
    const Array sums = apply(norm.of_part<op::GroupNormSums>(part), exact,
                             {reads[3 * part], statistics, y_grad[part]})
                           .values[0];
    weights.push_back(apply(op::GroupNormWeightGradient{}, exact, {sums}).values);
    const Array term = apply(norm.of_part<op::GroupNormGroupSums>(part), exact,
                             {sums, statistics, reads[3 * part + 1]})
                           .values[0];
    for (std::size_t i = 0; i < term.data.size(); ++i) statistics_grad.data[i] += term.data[i];
  }
  Arrays made;
  for (std::size_t part = 0; part < norm.channels.size(); ++part) {
    const Array moments = apply(op::GroupNormMoments{}, exact, {reads[3 * part]}).values[0];
    const op::GroupNormStatisticsGradient of_part{norm.groups, norm.all_channels(), pixels,
                                                  norm.before(part)};
    const Array moments_grad =
        apply(of_part, exact, {statistics, statistics_grad, moments}).values[0];
    const Array direct = apply(norm.of_part<op::GroupNormApplyGradient>(part), exact,
                               {statistics, reads[3 * part + 1], y_grad[part]})
                             .values[0];
    made.push_back(apply(op::GroupNormMomentsGradient{true}, exact,
                         {reads[3 * part], moments, moments_grad}, {direct})
                       .values[0]);
    made.push_back(weights[part][0]);
    made.push_back(weights[part][1]);
  }
  return made;
}

/// Wu, He 2018, eqs 1 to 7, written as they stand there, over the channels of all parts in a row.
Arrays by_definition(const Norm& norm, const Arrays& reads) {
  Arrays made;
  for (std::size_t part = 0; part < norm.channels.size(); ++part)
    made.push_back(filled(norm.shape(part), 0));
  const std::int64_t of_group = norm.all_channels() / norm.groups;
  struct Element {
    std::size_t part, index, channel;
  };
  for (std::int64_t sample = 0; sample < samples; ++sample)
    for (std::int64_t group = 0; group < norm.groups; ++group) {
      std::vector<Element> elements;
      for (std::int64_t c = group * of_group; c < (group + 1) * of_group; ++c) {
        std::size_t part = 0;
        while (c >= norm.before(part) + norm.channels[part]) ++part;
        for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
          const std::int64_t channel = c - norm.before(part);
          elements.push_back(
              {part,
               static_cast<std::size_t>((sample * pixels + pixel) * norm.channels[part] + channel),
               static_cast<std::size_t>(channel)});
        }
      }
      double mean = 0, variance = 0;
      for (const Element& e : elements) mean += reads[3 * e.part].data[e.index];
      mean /= static_cast<double>(elements.size());
      for (const Element& e : elements)
        variance += std::pow(reads[3 * e.part].data[e.index] - mean, 2);
      variance /= static_cast<double>(elements.size());
      for (const Element& e : elements)
        made[e.part].data[e.index] = (reads[3 * e.part].data[e.index] - mean) /
                                         std::sqrt(variance + epsilon) *
                                         reads[3 * e.part + 1].data[e.channel] +
                                     reads[3 * e.part + 2].data[e.channel];
    }
  return made;
}

/// One part; two and three parts with groups that reach over a seam; a group over all.
const std::vector<Norm> norms = {{{12}, 4}, {{8, 4}, 3}, {{5, 7}, 4}, {{4, 3, 5}, 2}, {{1, 2}, 1}};

TEST(GroupNorm, is_what_the_paper_defines_for_parts_and_for_groups_over_their_seams) {
  for (const Norm& norm : norms) {
    SCOPED_TRACE(norm.channels.size());
    // Far from zero, squares that are not those of distances would have no digit left.
    for (const double offset : {0.0, 1e6}) {
      const Arrays reads = norm.reads(offset), made = normalised(norm, reads),
                   wanted = by_definition(norm, reads);
      const double bound = 64 * 2.3e-16 * (1 + offset);
      for (std::size_t part = 0; part < made.size(); ++part)
        for (std::size_t i = 0; i < made[part].data.size(); ++i)
          EXPECT_NEAR(made[part].data[i], wanted[part].data[i], bound);
    }
  }
}

TEST(GroupNorm, gradients_of_its_rows_together_equal_central_differences) {
  for (const Norm& norm : norms) {
    Arrays y_grad;
    for (std::size_t part = 0; part < norm.channels.size(); ++part)
      y_grad.push_back(uniform(norm.shape(part), format("y_grad{}", part)));
    const Arrays reads = norm.reads(), made = gradients(norm, reads, y_grad);
    for (std::size_t read = 0; read < reads.size(); ++read)
      expect_gradient(
          format("group norm, read {}", read),
          [&](const Arrays& at) { return normalised(norm, at); }, reads, read, y_grad, made[read]);
  }
}

/// The channels of the tensor's last dim that one of `ranks` ranks has.
Array share(const Array& array, std::int64_t ranks, std::int64_t rank) {
  const std::int64_t local = array.shape.back() / ranks;
  return slice(array, array.shape.rank() - 1, rank * local, local);
}

TEST(GroupNorm, has_the_same_bits_on_ranks_that_share_the_channels) {
  const Norm norm{{16, 8}, 3};  // the last but one group reaches over the seam
  const Arrays reads = norm.reads();
  for (const Backend& backend :
       {Backend{"reference", DType::f32, 1}, Backend{"vector", DType::f32, 2}, exact}) {
    SCOPED_TRACE(to_string(backend));
    const Arrays whole = normalised(norm, reads, backend);
    const Array statistics = statistics_of(norm, reads, backend);
    for (const std::int64_t ranks : {2, 4, 8})
      for (std::int64_t rank = 0; rank < ranks; ++rank)
        for (std::size_t part = 0; part < norm.channels.size(); ++part) {
          const Array x = share(reads[3 * part], ranks, rank);
          const Array moments = apply(op::GroupNormMoments{}, backend, {x}).values[0];
          const Array of_all = apply(op::GroupNormMoments{}, backend, {reads[3 * part]}).values[0];
          const std::int64_t local = moments.shape[0];
          EXPECT_EQ(moments.data, slice(of_all, 0, rank * local, local).data);
          op::GroupNormApply of_part = norm.of_part<op::GroupNormApply>(part);
          of_part.first = rank * local;
          EXPECT_EQ(apply(of_part, backend,
                          {x, statistics, share(reads[3 * part + 1], ranks, rank),
                           share(reads[3 * part + 2], ranks, rank)})
                        .values[0]
                        .data,
                    share(whole[part], ranks, rank).data);
        }
  }
}

}  // namespace
}  // namespace fourfold::numerics
