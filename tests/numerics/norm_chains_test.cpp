// Chains around norms over groups of channels: cases for every backend, of odd sizes and of whole
// packs, of one part and of two, and of tensors that are cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "numerics/harness.h"
#include "support/norm_chains.h"

namespace fourfold::numerics {
namespace {

/// The largest element of each output, of which sums of numbers of both signs are not more than a
/// few: what elements may be wrong by is that of the rows, which have bounds of their own.
Arrays largest_of_each(const Case& /*sample*/, const Arrays& outputs) {
  Arrays magnitude = outputs;
  for (Array& array : magnitude) {
    double largest = 1;
    for (const double value : array.data) largest = std::max(largest, std::abs(value));
    std::ranges::fill(array.data, 8 * largest);
  }
  return magnitude;
}

/// Tensors of a norm, with what its rows make of them.
struct NormTensors {
  op::GroupNormApply norm;
  Shape shape;
  Array x, gain, bias, grad, addend, modulation, moments, statistics, statistics_grad;

  NormTensors(const op::GroupNormApply& row, const Shape& dims)
      : norm(row),
        shape(dims),
        x(uniform(shape, "x", 2, 4)),
        gain(uniform({shape.back()}, "gain")),
        bias(uniform({shape.back()}, "bias")),
        grad(uniform(shape, "grad")),
        addend(uniform(shape, "addend")),
        modulation(uniform({shape[0], 2, shape.back()}, "modulation")),
        moments(apply(op::GroupNormMoments{}, exact, {x}).values[0]),
        statistics(uniform({shape[0], norm.groups, 2}, "statistics", 0.5, 3)),
        statistics_grad(uniform({shape[0], norm.groups, 2}, "statistics_grad")) {}
  std::int64_t pixels() const { return shape.elements(1, shape.rank() - 1); }
  double elements() const { return static_cast<double>(shape.elements() / shape.back()); }
};

void add_dropout(Arrays& reads, const std::optional<op::Dropout>& dropout) {
  if (dropout) reads.insert(reads.end(), {scalar(12345), scalar(7)});
}

void add_cases(std::vector<Case>& cases, const op::GroupNormApply& norm, const Shape& shape,
               const op::TensorWindow& cut = {}) {
  const NormTensors of(norm, shape);
  const op::Dropout dropout{{99}, 0.3, {1, 2 * shape[0], shape[0]}, cut};
  const auto add = [&](std::string name, const op::Op& chain, Arrays reads, Arrays updates = {}) {
    cases.push_back({std::move(name), chain, std::move(reads), std::move(updates), of.elements(),
                     largest_of_each});
  };
  if (norm.width == shape.back()) {
    add("one part", op::moments_and_statistics({norm.groups, 1, of.pixels()}), {of.x});
  } else {
    // Channels before and after those that are here, as moments of other parts.
    const std::int64_t others = norm.width - shape.back();
    const Array moments = uniform({others, shape[0], 2}, "moments", 1, 2);
    for (const std::size_t index : {0U, 1U})
      add(format("part {} of two", index),
          op::moments_and_statistics({norm.groups, 2, of.pixels()}, index), {of.x, moments});
  }
  for (const op::AfterNorm& after : {op::AfterNorm{}, op::AfterNorm{true, {}},
                                     op::AfterNorm{false, dropout}, op::AfterNorm{true, dropout}}) {
    const std::string name =
        format("{}{}", after.modulated ? "modulated" : "plain", after.dropout ? " dropped" : "");
    Arrays reads = {of.x, of.statistics, of.gain, of.bias};
    if (after.modulated) reads.push_back(of.modulation);
    add_dropout(reads, after.dropout);
    add(name, op::norm_and_silu(norm, after), reads);
    reads.insert(reads.begin() + 3, of.grad);
    const bool accumulate = !after.modulated;
    add(name + " back", op::norm_sums_of_silu(norm, after, accumulate), reads,
        accumulate ? Arrays{of.gain, of.bias} : Arrays{});
    if (!after.dropout)
      add(name + " back, y_grad between", op::norm_sums_of_silu(norm, after, accumulate, false),
          reads, accumulate ? Arrays{of.gain, of.bias} : Arrays{});
  }
  add("sums", op::norm_sums(norm, false), {of.x, of.statistics, of.gain, of.grad});
  const auto summed = static_cast<std::int64_t>(shape.rank()) - 1;
  for (const op::AroundGradient& flags : {op::AroundGradient{},
                                          {false, true, false},
                                          {false, true, true},
                                          {false, false, true},
                                          {true, false, false},
                                          {true, true, false},
                                          {true, true, true}})
    for (const std::size_t biases : {0U, 1U, 2U, 3U}) {
      op::AroundGradient around = flags;
      Arrays reads = {of.x, of.moments, of.statistics, of.statistics_grad, of.gain, of.grad};
      if (around.has_silu) reads.push_back(of.bias);
      if (around.has_addend) reads.push_back(of.addend);
      if (around.has_later_addend) reads.push_back(of.x);
      const std::vector<op::BiasGradient> rows = {{summed, true}, {summed, false}, {summed, false}};
      around.biases.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(biases));
      add(format("silu {} addends {} {} biases {}", around.has_silu, around.has_addend,
                 around.has_later_addend, biases),
          op::norm_gradient(norm, of.pixels(), around), reads,
          biases > 0 ? Arrays{of.bias} : Arrays{});
    }
  for (const op::SumOf sum : {op::SumOf::bias, op::SumOf::other, op::SumOf::bias_then_other,
                              op::SumOf::other_then_bias}) {
    Arrays reads = {of.grad};
    if (sum == op::SumOf::other || sum == op::SumOf::other_then_bias) reads.push_back(of.x);
    if (sum != op::SumOf::other) reads.push_back(of.bias);
    if (sum == op::SumOf::bias_then_other) reads.push_back(of.x);
    const std::string name = format("sum {}", static_cast<int>(sum));
    if (reads.size() == 3) add(name, op::bias_and_sum(sum), reads);
    const std::int64_t others = norm.width - shape.back();
    if (others > 0) reads.push_back(uniform({others, shape[0], 2}, "moments", 1, 2));
    add(name + " and statistics",
        op::sum_and_statistics(sum, {norm.groups, others > 0 ? 2 : 1, of.pixels()}), reads);
  }
}

}  // namespace

std::vector<Case> norm_chain_cases() {
  std::vector<Case> cases;
  add_cases(cases, {.groups = 1, .width = 1}, {1, 1, 1, 1});
  add_cases(cases, {.groups = 5, .width = 35}, {2, 3, 5, 35});
  add_cases(cases, {.groups = 4, .width = 48}, {3, 7, 9, 48});  // whole packs, several stretches
  // The second of two parts, of which a group reaches into the first; here is a cut of it.
  add_cases(cases, {.groups = 3, .width = 36, .before = 10, .first = 2}, {2, 5, 3, 16},
            {{5, 3, 26}, {0, 0, 2}});
  // A cut of an odd number of channels.
  add_cases(cases, {.groups = 3, .width = 36, .before = 10, .first = 2}, {2, 5, 3, 17},
            {{5, 3, 26}, {0, 0, 2}});
  add_cases(cases, {.groups = 2, .width = 2060}, {1, 2, 3, 2060});  // more packs than threads
  return cases;
}

namespace {

TEST(NormChains, gives_the_bits_of_its_pieces_where_no_kernel_does_all_at_once) {
  for (const Case& sample : norm_chain_cases())
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const Backend backend{"vector", dtype, 2};
      EXPECT_EQ(apply(sample.op, backend, sample.reads, sample.updates).bytes,
                of_pieces(sample, backend).bytes)
          << op::name(sample.op) << " " << sample.name << " " << to_string(backend);
    }
}

}  // namespace
}  // namespace fourfold::numerics
