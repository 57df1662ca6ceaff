// Chains of rows: within the bound of the reference as any other, and the bits of their pieces.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "numerics/harness.h"
#include "support/chains.h"

namespace fourfold::numerics {
namespace {

struct Kind {
  bool bias, branch_bias;
  double rate;
};

/// Rounding of the sum, relative to |x| + |branch| + |bias|, passes on through the norm: times rstd
/// |gain|, once itself and once in mean and rstd. A dropped element is larger by 1 / (1 - rate).
Arrays add_norm_magnitude(const Kind& kind, const Case& sample, const Arrays& outputs) {
  const std::size_t gain = sample.reads.size() - (kind.bias ? 2 : 1);
  const Array &branch = sample.reads[0], &x = sample.reads[gain - 1];
  const std::size_t channels = sample.reads[gain].data.size();
  Arrays magnitude = outputs;
  for (std::size_t r = 0; r < outputs[2].data.size(); ++r) {
    double sum = 0;
    for (std::size_t i = r * channels; i < (r + 1) * channels; ++i) {
      const double bias = kind.branch_bias ? std::abs(sample.reads[1].data[i % channels]) : 0;
      magnitude[0].data[i] =
          std::abs(x.data[i]) + (std::abs(branch.data[i]) + bias) / (1 - kind.rate);
      sum += magnitude[0].data[i];
    }
    const double average = sum / static_cast<double>(channels), rstd = outputs[3].data[r];
    for (std::size_t i = r * channels; i < (r + 1) * channels; ++i) {
      const std::size_t c = i % channels;
      const double normal = (magnitude[0].data[i] + average) * rstd;
      magnitude[1].data[i] = 2 * (normal + std::abs(outputs[1].data[i]) * average * rstd) *
                                 std::abs(sample.reads[gain].data[c]) +
                             (kind.bias ? std::abs(sample.reads[gain + 1].data[c]) : 0);
    }
    magnitude[2].data[r] = average;
    magnitude[3].data[r] = rstd * (1 + 2 * average * rstd);
  }
  return magnitude;
}

/// The terms of op::LayerNormGradient, plus the addend; dropout multiplies.
Arrays add_norm_gradient_magnitude(bool addend, double rate, const Case& sample,
                                   const Arrays& outputs) {
  const Array &x = sample.reads[0], &gain = sample.reads[1], &mean = sample.reads[2],
              &rstd = sample.reads[3], &grad = sample.reads[4];
  const std::size_t channels = gain.data.size();
  Arrays magnitude = outputs;
  for (std::size_t r = 0; r < mean.data.size(); ++r) {
    const auto normal = [&](std::size_t i) {
      return (std::abs(x.data[i]) + std::abs(mean.data[r])) * rstd.data[r];
    };
    double sum = 0, sum_normal = 0;
    for (std::size_t i = r * channels; i < (r + 1) * channels; ++i) {
      const double scaled = std::abs(grad.data[i] * gain.data[i % channels]);
      sum += scaled;
      sum_normal += scaled * normal(i);
    }
    for (std::size_t i = r * channels; i < (r + 1) * channels; ++i) {
      const double scaled = std::abs(grad.data[i] * gain.data[i % channels]);
      magnitude[0].data[i] =
          rstd.data[r] * (scaled + (sum + normal(i) * sum_normal) / static_cast<double>(channels)) +
          (addend ? std::abs(sample.reads[5].data[i]) : 0);
      if (outputs.size() > 1) magnitude[1].data[i] = magnitude[0].data[i] / (1 - rate);
    }
  }
  return magnitude;
}

/// The same with sums over rows, of the terms of op::LayerNormWeightGradient and of the branch.
Arrays norm_sums_magnitude(const op::NormSums& sums, bool addend, double rate, const Case& sample,
                           const Arrays& outputs) {
  const Array &x = sample.reads[0], &mean = sample.reads[2], &rstd = sample.reads[3],
              &grad = sample.reads[4];
  const std::size_t channels = sample.reads[1].data.size(), first = sums.bias ? 2 : 1;
  Arrays magnitude = outputs;
  const std::size_t rows_end = outputs.size() - (sums.branch_bias ? 1 : 0);
  const auto begin = outputs.begin();
  const Arrays of_rows =
      add_norm_gradient_magnitude(addend, rate, sample,
                                  Arrays(begin + static_cast<std::ptrdiff_t>(first),
                                         begin + static_cast<std::ptrdiff_t>(rows_end)));
  std::copy(of_rows.begin(), of_rows.end(), magnitude.begin() + static_cast<std::ptrdiff_t>(first));
  const auto sum_rows = [&](std::size_t output, auto term) {
    for (std::size_t c = 0; c < channels; ++c) {
      double& sum = magnitude[output].data[c];
      sum = sums.accumulate ? 1 : 0;  // what it is added to
      for (std::size_t r = 0; r < mean.data.size(); ++r) sum += term(r, r * channels + c);
    }
  };
  sum_rows(0, [&](std::size_t r, std::size_t i) {
    return std::abs(grad.data[i]) * (std::abs(x.data[i]) + std::abs(mean.data[r])) * rstd.data[r];
  });
  if (sums.bias) sum_rows(1, [&](std::size_t, std::size_t i) { return std::abs(grad.data[i]); });
  if (sums.branch_bias)
    sum_rows(rows_end, [&](std::size_t, std::size_t i) { return of_rows.back().data[i]; });
  return magnitude;
}

/// A GELU's slope is at most 1.13, so the rounding of the sum passes on.
Arrays bias_gelu_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays magnitude = outputs;
  const std::size_t columns = sample.reads[1].data.size();
  for (std::size_t i = 0; i < outputs[0].data.size(); ++i) {
    magnitude[0].data[i] =
        std::abs(sample.reads[0].data[i]) + std::abs(sample.reads[1].data[i % columns]);
    magnitude[1].data[i] = 2 * magnitude[0].data[i];
  }
  return magnitude;
}

/// As for the two rows apart, lse having the error of the loss.
Arrays both_magnitude(double scale, const Case& sample, const Arrays& outputs) {
  double largest = 0;
  for (const double logit : sample.reads[0].data) largest = std::max(largest, std::abs(logit));
  const std::size_t vocabulary = static_cast<std::size_t>(sample.reads[0].shape.back());
  Arrays magnitude = outputs;
  for (std::size_t r = 0; r < outputs[0].data.size(); ++r) {
    const double lse = outputs[1].data[r], either = 1 + 2 * largest + std::abs(lse);
    magnitude[0].data[r] = magnitude[1].data[r] = either;
    for (std::size_t v = 0; v < vocabulary; ++v) {
      const std::size_t i = r * vocabulary + v;
      const double p = std::exp(sample.reads[0].data[i] - lse);
      const double hit = static_cast<double>(v) == sample.reads[1].data[r] ? 1 : 0;
      magnitude[2].data[i] = scale * (2 * p * either + hit);
    }
  }
  return magnitude;
}

std::optional<op::Dropout> dropout_of(double rate, const op::SampleWindow& window) {
  return rate > 0 ? std::optional(op::Dropout{{99}, rate, window}) : std::nullopt;
}

void add_norm_cases(std::vector<Case>& cases, const Shape& shape, double offset) {
  const Array x = uniform(shape, "x", offset - 1, offset + 1), branch = uniform(shape, "branch"),
              grad = uniform(shape, "grad"), gain = uniform({shape.back()}, "gain"),
              bias = uniform({shape.back()}, "bias"),
              other = uniform({shape.back()}, "branch bias");
  const auto channels = static_cast<double>(shape.back());
  const op::SampleWindow window{1, 2 * shape[0], shape[0]};
  for (const Kind kind : {Kind{true, true, 0.1}, {false, true, 0}, {true, false, 0}}) {
    Arrays reads = {branch};
    if (kind.branch_bias) reads.push_back(other);
    if (kind.rate > 0) reads.insert(reads.end(), {scalar(12345), scalar(7)});
    reads.insert(reads.end(), {x, gain});
    if (kind.bias) reads.push_back(bias);
    const std::optional dropout = dropout_of(kind.rate, window);
    cases.push_back({format("bias {} {} rate {}", kind.bias, kind.branch_bias, kind.rate),
                     op::residual_norm({1e-5, kind.bias}, kind.branch_bias, dropout),
                     reads,
                     {},
                     channels,
                     [kind](const Case& sample, const Arrays& outputs) {
                       return add_norm_magnitude(kind, sample, outputs);
                     }});
  }
  for (const bool has_bias : {true, false}) {
    Arrays reads = {x, branch, gain};
    if (has_bias) reads.push_back(bias);
    cases.push_back({format("wide bias {}", has_bias),
                     op::wide_residual_norm({1e-5, has_bias}),
                     reads,
                     {},
                     channels,
                     [has_bias](const Case& sample, const Arrays& outputs) {
                       return add_norm_magnitude({has_bias, false, 0}, sample, outputs);
                     }});
  }
  const Arrays forward = apply(op::LayerNorm{1e-5, false}, exact, {x, gain}).values;
  for (const bool addend : {true, false})
    for (const double rate : {0.1, 0.0}) {
      Arrays reads = {x, gain, forward[1], forward[2], grad};
      if (addend) reads.push_back(branch);
      if (rate > 0) reads.insert(reads.end(), {scalar(12345), scalar(7)});
      const auto add = [&](const std::string& name, const op::Op& chain) {
        cases.push_back({format("{}addend {} rate {}", name, addend, rate),
                         chain,
                         reads,
                         {},
                         channels,
                         [addend, rate](const Case& sample, const Arrays& outputs) {
                           return add_norm_gradient_magnitude(addend, rate, sample, outputs);
                         }});
      };
      const auto dropout = dropout_of(rate, window);
      if (addend || dropout) add("", op::residual_norm_gradient(addend, dropout));
      add("wide ", op::wide_residual_norm_gradient(addend, dropout));
    }
}

void add_norm_sums_cases(std::vector<Case>& cases, const Shape& shape, double offset) {
  const Array x = uniform(shape, "x", offset - 1, offset + 1), grad = uniform(shape, "grad"),
              branch = uniform(shape, "branch"), gain = uniform({shape.back()}, "gain");
  const Arrays forward = apply(op::LayerNorm{1e-5, false}, exact, {x, gain}).values;
  const op::SampleWindow window{1, 2 * shape[0], shape[0]};
  struct SumsKind {
    op::NormSums sums;
    bool wide, addend;
    double rate;
  };
  for (const SumsKind& kind : {SumsKind{{true, true}, false, true, 0},
                               {{false, true, true}, false, true, 0.1},
                               {{true, false, true}, true, true, 0},
                               {{true, true}, true, false, 0.1},
                               {{true, false}, false, false, 0}}) {
    Arrays reads = {x, gain, forward[1], forward[2], grad}, updates;
    if (kind.addend) reads.push_back(branch);
    if (kind.rate > 0) reads.insert(reads.end(), {scalar(12345), scalar(7)});
    const std::size_t sums = 1 + (kind.sums.bias ? 1 : 0) + (kind.sums.branch_bias ? 1 : 0);
    if (kind.sums.accumulate) updates.assign(sums, uniform({shape.back()}, "before"));
    cases.push_back(
        {format("sums wide {} addend {} rate {} of bias {} {}", kind.wide, kind.addend, kind.rate,
                kind.sums.bias, kind.sums.branch_bias),
         op::norm_gradients(kind.sums, kind.wide, kind.addend, dropout_of(kind.rate, window), 2),
         reads, updates, static_cast<double>(shape.back() + shape[0] * shape[1]),
         [kind](const Case& sample, const Arrays& outputs) {
           return norm_sums_magnitude(kind.sums, kind.addend, kind.rate, sample, outputs);
         }});
  }
}

/// The magnitude of op::GeluGradient, which the bias adds up.
Arrays gelu_sums_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays magnitude = outputs;
  std::vector<double>& sums = magnitude[1].data;
  for (std::size_t column = 0; column < sums.size(); ++column)
    sums[column] = sample.updates.empty() ? 0 : std::abs(sample.updates[0].data[column]);
  for (std::size_t i = 0; i < magnitude[0].data.size(); ++i) {
    const double x = sample.reads[0].data[i];
    const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x);
    const double slope = 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
    const double flatness = 1 - std::tanh(u) * std::tanh(u);
    magnitude[0].data[i] = std::abs(sample.reads[1].data[i]) *
                           (1 + std::abs(x) * flatness * slope * (1 + std::abs(u)));
    sums[i % sums.size()] += magnitude[0].data[i];
  }
  return magnitude;
}

}  // namespace

std::vector<Case> fused_cases() {
  std::vector<Case> cases;
  add_norm_cases(cases, {1, 1, 1}, 0);
  add_norm_cases(cases, {3, 5, 7}, 100);
  add_norm_cases(cases, {7, 31, 130}, 0);
  add_norm_cases(cases, {1, 5, 1032}, 0);
  add_norm_cases(cases, {1, 9, 768}, 0);
  add_norm_cases(cases, {1, 5, 1600}, 0);
  add_norm_cases(cases, {1, 3, 2060}, 0);
  add_norm_cases(cases, {1, 2, 8200}, 0);  // more than a block has threads for
  add_norm_sums_cases(cases, {1, 1, 1}, 0);
  add_norm_sums_cases(cases, {3, 5, 7}, 100);
  add_norm_sums_cases(cases, {5, 29, 264}, 0);
  add_norm_sums_cases(cases, {1, 67, 768}, 0);  // CUDA kernels: several tiles for each block
  add_norm_sums_cases(cases, {1, 35, 1600}, 0);
  add_norm_sums_cases(cases, {1, 33, 2060}, 0);
  add_norm_sums_cases(cases, {1, 2, 4100}, 0);  // in f32 more than a block has threads for
  for (const auto& [batch, time, columns] :
       {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 7}, {5, 53, 67}}) {
    const Shape shape{batch, time, columns};
    cases.push_back({"narrow",
                     op::bias_gelu(),
                     {uniform(shape, "x"), uniform({columns}, "bias")},
                     {},
                     1,
                     bias_gelu_magnitude});
    cases.push_back({"wide",
                     op::bias_gelu(),
                     {uniform(shape, "x", -12, 12), uniform({time, columns}, "bias")},
                     {},
                     1,
                     bias_gelu_magnitude});
  }
  for (const Shape& shape : {Shape{1, 1, 1}, {3, 5, 7}, {2, 67, 264}})  // of several stretches
    for (const bool accumulate : {false, true}) {
      Arrays before;
      if (accumulate) before.push_back(uniform({shape.back()}, "before"));
      cases.push_back({format("accumulate {}", accumulate),
                       op::gelu_gradient_and_sums({2, accumulate}),
                       {uniform(shape, "x", -6, 6), uniform(shape, "grad")},
                       before,
                       static_cast<double>(shape[0] * shape[1]),
                       gelu_sums_magnitude});
    }
  for (const auto& [batch, time, vocabulary] :
       {std::array<std::int64_t, 3>{1, 1, 1},
        {3, 5, 7},
        {4, 70, 65},
        {2, 3, 72},  // rows that CUDA kernels keep; of the last ones, those in bf16
        {1, 3, 20011},
        {1, 2, 26104}})
    cases.push_back({"logits",
                     op::loss_and_gradient(0.01),
                     {uniform({batch, time, vocabulary}, "logits", -8, 8),
                      integers({batch, time}, "labels", vocabulary, 4)},
                     {},
                     static_cast<double>(vocabulary),
                     [](const Case& sample, const Arrays& outputs) {
                       return both_magnitude(0.01, sample, outputs);
                     }});
  return cases;
}

namespace {

TEST(Fused, chains_give_the_bits_of_their_pieces_on_any_number_of_threads) {
  for (const Case& sample : fused_cases())
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
      for (const int threads : {1, 2, 3}) {
        const Backend backend{"vector", dtype, threads};
        EXPECT_EQ(apply(sample.op, backend, sample.reads, sample.updates).bytes,
                  of_pieces(sample, backend).bytes)
            << op::name(sample.op) << " " << sample.name << " " << to_string(backend);
      }
}

}  // namespace
}  // namespace fourfold::numerics
