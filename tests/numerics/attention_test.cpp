// Causal attention, whole and within documents, its gradient, and its continuation token by token.
// B batch, T time, H heads, D head width.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/format.h"
#include "kernels/dropout_mask.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

struct AttentionSizes {
  std::int64_t batch, time, heads, width;
};

/// Visits every (sample, head, t) of qkv with q(d), k(s, d), v(s, d) in absolute value and the
/// probabilities of the exact run after dropout: what rounding errors of attention are relative to.
class AttentionBounds {
 public:
  explicit AttentionBounds(const Array& qkv)
      : qkv_(qkv), time_(qkv.shape[1]), heads_(qkv.shape[3]), width_(qkv.shape[4]) {}

  double element(std::int64_t sample, std::int64_t t, std::int64_t part, std::int64_t head,
                 std::int64_t d) const {
    return qkv_.data[index(sample, t, part, head, d)];
  }
  std::size_t index(std::int64_t sample, std::int64_t t, std::int64_t part, std::int64_t head,
                    std::int64_t d) const {
    return static_cast<std::size_t>((((sample * time_ + t) * 3 + part) * heads_ + head) * width_ +
                                    d);
  }
  double score(std::int64_t sample, std::int64_t head, std::int64_t t, std::int64_t s,
               bool absolute) const {
    double sum = 0;
    for (std::int64_t d = 0; d < width_; ++d) {
      const double term = element(sample, t, 0, head, d) * element(sample, s, 1, head, d);
      sum += absolute ? std::abs(term) : term;
    }
    return sum / std::sqrt(static_cast<double>(width_));
  }
  /// Largest score of absolute values: a score's error is relative to it, a probability's relative
  /// error twice it.
  double largest_score(bool causal) const {
    double largest = 0;
    for (std::int64_t sample = 0; sample < qkv_.shape[0]; ++sample)
      for (std::int64_t head = 0; head < heads_; ++head)
        for (std::int64_t t = 0; t < time_; ++t)
          for (std::int64_t s = 0; s < (causal ? t + 1 : time_); ++s)
            largest = std::max(largest, score(sample, head, t, s, true));
    return largest;
  }

 private:
  const Array& qkv_;
  std::int64_t time_, heads_, width_;
};

/// Where the document of a token begins; `place` is that of document_starts among the reads.
template <class AttentionOp>
std::int64_t first_key(const AttentionOp& op, const Arrays& reads, std::size_t place,
                       std::int64_t sample, std::int64_t t) {
  if (!op.documents) return 0;
  const Array& starts = reads[place];
  return static_cast<std::int64_t>(
      starts.data[static_cast<std::size_t>(sample * starts.shape[1] + t)]);
}

/// y: sum over s of p |v| (1 + 2 A), lse: |lse| + A + 1, with A the largest score of absolute
/// values.
Arrays attention_magnitude(const Case& sample, const Arrays& outputs) {
  Case positive = sample;
  const Shape& shape = sample.reads[0].shape;
  const AttentionBounds bounds(sample.reads[0]);
  for (std::int64_t b = 0; b < shape[0]; ++b)
    for (std::int64_t t = 0; t < shape[1]; ++t)
      for (std::int64_t h = 0; h < shape[3]; ++h)
        for (std::int64_t d = 0; d < shape[4]; ++d) {
          double& value = positive.reads[0].data[bounds.index(b, t, 2, h, d)];
          value = std::abs(value);
        }
  const double largest = bounds.largest_score(sample.op.get<op::Attention>().causal);
  Arrays magnitude = apply(positive.op, exact, positive.reads).values;
  for (double& value : magnitude[0].data) value *= 1 + 2 * largest;
  for (std::size_t i = 0; i < outputs[1].data.size(); ++i)
    magnitude[1].data[i] = std::abs(outputs[1].data[i]) + largest + 1;
  return magnitude;
}

/// The formulas of the gradient with every term in absolute value, times 1 + 2 A for the error of
/// p.
Arrays attention_gradient_magnitude(const Case& sample, const Arrays& outputs) {
  const auto& op = sample.op.get<op::AttentionGradient>();
  const Array &qkv = sample.reads[0], &y = sample.reads[1], &lse = sample.reads[2],
              &y_grad = sample.reads[3];
  const AttentionBounds at(qkv);
  const std::int64_t time = qkv.shape[1], heads = qkv.shape[3], width = qkv.shape[4];
  const double scale = 1 / std::sqrt(static_cast<double>(width)), kept = 1 / (1 - op.rate);
  Arrays magnitude = {filled(qkv.shape, 0)};
  std::vector<double>& out = magnitude[0].data;
  for (std::int64_t b = 0; b < qkv.shape[0]; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t t = 0; t < time; ++t) {
        const auto row = static_cast<std::size_t>(((b * time + t) * heads + h) * width);
        double mean = 0;
        for (std::size_t d = 0; d < static_cast<std::size_t>(width); ++d)
          mean += std::abs(y.data[row + d] * y_grad.data[row + d]);
        const std::int64_t end = op.causal ? t + 1 : time;
        for (std::int64_t s = first_key(op, sample.reads, 4, b, t); s < end; ++s) {
          const double p = std::exp(at.score(b, h, t, s, false) -
                                    lse.data[static_cast<std::size_t>((b * heads + h) * time + t)]);
          double p_grad = 0;
          for (std::int64_t d = 0; d < width; ++d)
            p_grad += kept * std::abs(y_grad.data[row + static_cast<std::size_t>(d)] *
                                      at.element(b, s, 2, h, d));
          for (std::int64_t d = 0; d < width; ++d) {
            const double score_grad = scale * p * (p_grad + mean);
            out[at.index(b, t, 0, h, d)] += score_grad * std::abs(at.element(b, s, 1, h, d));
            out[at.index(b, s, 1, h, d)] += score_grad * std::abs(at.element(b, t, 0, h, d));
            out[at.index(b, s, 2, h, d)] +=
                kept * p * std::abs(y_grad.data[row + static_cast<std::size_t>(d)]);
          }
        }
      }
  double largest_lse = 0;  // exp(score - lse) also rounds its argument
  for (const double value : lse.data) largest_lse = std::max(largest_lse, std::abs(value));
  const double condition = 1 + 2 * at.largest_score(op.causal) + largest_lse;
  for (double& value : out) value *= condition;
  EXPECT_EQ(outputs[0].shape, qkv.shape);
  return magnitude;
}

Array qkv_of(const AttentionSizes& s) {
  return uniform({s.batch, s.time, 3, s.heads, s.width}, "qkv", -2, 2);
}

/// document_starts (B,T) of documents of these lengths, over and over; each sample begins with
/// another of them, the first token of the stream being somewhere within it.
Array documents_of(std::int64_t batch, std::int64_t time,
                   const std::vector<std::int64_t>& lengths) {
  Array starts = filled({batch, time}, 0);
  for (std::int64_t sample = 0; sample < batch; ++sample) {
    std::int64_t start = 0;
    for (auto next = static_cast<std::size_t>(sample); start < time; ++next) {
      const std::int64_t end = std::min(time, start + lengths[next % lengths.size()]);
      for (std::int64_t t = start; t < end; ++t)
        starts.data[static_cast<std::size_t>(sample * time + t)] = static_cast<double>(start);
      start = end;
    }
  }
  return starts;
}

/// What attention reads besides tensors of the computation.
struct Options {
  double rate = 0;
  std::optional<Array> starts = {};
  bool causal = true;
};
Arrays with_options(Arrays reads, const Options& options) {
  if (options.starts) reads.push_back(*options.starts);
  if (options.rate == 0) return reads;
  reads.push_back(scalar(99));
  reads.push_back(scalar(5));
  return reads;
}
Arrays with_random(Arrays reads, double rate) {
  return with_options(std::move(reads), {rate});
}

op::Attention attention(double rate) {
  return {random_stream("attention"), rate, {1, 8, 2}, 0, 0};
}
op::Attention attention(const Options& options) {
  op::Attention op = attention(options.rate);
  op.documents = options.starts.has_value();
  op.causal = options.causal;
  return op;
}
op::AttentionGradient attention_gradient(const op::Attention& op) {
  return {op.stream, op.rate, op.window, op.first_head, op.heads, op.documents, op.causal};
}

/// Reads of the gradient op, the forward outputs by the reference.
Arrays gradient_reads(const Options& options, const Array& qkv) {
  const Arrays forward = apply(attention(options), exact, with_options({qkv}, options)).values;
  return with_options({qkv, forward[0], forward[1], uniform(forward[0].shape, "grad")}, options);
}

Arrays cached_magnitude(const Case& sample, const Arrays& outputs) {
  Arrays magnitude = outputs;
  double largest_value = 0, width = static_cast<double>(sample.reads[0].shape[4]);
  for (const Array& array : {sample.reads[0], sample.updates[0]})
    for (const double value : array.data) largest_value = std::max(largest_value, std::abs(value));
  for (double& value : magnitude[0].data) value = std::abs(value);
  for (double& value : magnitude[1].data)
    value = largest_value * (1 + 2 * largest_value * largest_value * std::sqrt(width));
  return magnitude;
}

void add_cases(std::vector<Case>& cases, const char* name, const Array& qkv,
               const Options& options) {
  const auto longest = static_cast<double>(std::max(qkv.shape[1], qkv.shape[4]));
  const op::Attention op = attention(options);
  cases.push_back({name, op, with_options({qkv}, options), {}, longest, attention_magnitude});
  cases.push_back({name,
                   attention_gradient(op),
                   gradient_reads(options, qkv),
                   {},
                   longest,
                   attention_gradient_magnitude});
}
void add_cases(std::vector<Case>& cases, const char* name, const AttentionSizes& s,
               const Options& options) {
  add_cases(cases, name, qkv_of(s), options);
}

}  // namespace

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  for (const AttentionSizes& s :
       {AttentionSizes{1, 1, 1, 1}, AttentionSizes{2, 7, 3, 5}, AttentionSizes{1, 24, 1, 16},
        AttentionSizes{2, 61, 3, 8}, AttentionSizes{1, 100, 4, 32}, AttentionSizes{1, 70, 2, 64}})
    for (const double rate : {0., 0.2})
      add_cases(cases, rate == 0 ? "plain" : "dropout", s, {rate});
  // Documents of one token, of more than a block of queries, cut by a block's border and beginning
  // on it; one that spans the window; one that begins with the last token.
  const std::vector<std::vector<std::int64_t>> lengths = {
      {1}, {1, 1, 3, 20, 17, 48, 2, 70, 5}, {48, 96, 7}, {1000}, {106}, {105, 1}};
  for (const AttentionSizes& s :
       {AttentionSizes{1, 1, 1, 1}, AttentionSizes{3, 107, 2, 5}, AttentionSizes{2, 106, 1, 16}})
    for (std::size_t i = 0; i < lengths.size(); ++i)
      add_cases(cases, "documents", s,
                {i % 2 == 1 ? 0.2 : 0., documents_of(s.batch, s.time, lengths[i])});
  // More than one block of queries and of keys, of each width that kernels are made for, and heads
  // that fill neither that nor 16 bytes.
  for (const AttentionSizes& s : {AttentionSizes{1, 200, 1, 64}, AttentionSizes{1, 150, 1, 128},
                                  AttentionSizes{2, 137, 1, 100}, AttentionSizes{1, 90, 1, 256},
                                  AttentionSizes{1, 133, 1, 33}})
    add_cases(cases, "large", s, {});
  // Heads that several warps share: of one token, of more than a block of rows; of each width that
  // kernels are made for, and such as do not fill it, or 16 bytes.
  for (const AttentionSizes& s : {AttentionSizes{1, 1, 1, 384}, AttentionSizes{1, 67, 1, 512},
                                  AttentionSizes{2, 35, 1, 312}, AttentionSizes{1, 33, 2, 261}})
    add_cases(cases, "split", s, {.causal = s.width != 512});
  add_cases(cases, "split", {1, 40, 1, 264}, {.rate = 0.2, .causal = false});
  add_cases(cases, "split", {1, 70, 1, 392}, {0.2, documents_of(1, 70, {3, 20, 40})});
  add_cases(cases, "large", {1, 150, 1, 72}, {0.2});
  add_cases(cases, "large", {1, 290, 1, 16}, {0.2, documents_of(1, 290, {140, 3, 64, 70})});
  for (const AttentionSizes& s : {AttentionSizes{1, 1, 1, 1}, AttentionSizes{2, 7, 3, 5},
                                  AttentionSizes{1, 48, 2, 16}, AttentionSizes{2, 107, 1, 33},
                                  AttentionSizes{1, 200, 1, 64}, AttentionSizes{1, 150, 1, 128}})
    for (const double rate : {0., 0.2})
      add_cases(cases, "of all tokens", s, {.rate = rate, .causal = false});
  // Scores around 450 and -450, which differ by at most 70: no probability underflows.
  for (const double offset : {-4., 4.}) {
    Array qkv = qkv_of({1, 140, 1, 8});
    for (std::size_t i = 0; i < qkv.data.size(); ++i)
      if (const std::size_t part = i / 8 % 3; part < 2) qkv.data[i] += part == 0 ? offset : 40;
    add_cases(cases, "offset", qkv, {});
  }
  for (const auto& [s, position, positions] :
       {std::tuple{AttentionSizes{1, 1, 1, 1}, 0, 1}, std::tuple{AttentionSizes{2, 1, 3, 5}, 6, 9},
        std::tuple{AttentionSizes{1, 50, 4, 32}, 20, 80},
        std::tuple{AttentionSizes{1, 3, 2, 384}, 7, 11},
        std::tuple{AttentionSizes{1, 2, 1, 509}, 0, 5}})
    cases.push_back({"continued",
                     op::AttentionCached{positions},
                     {qkv_of(s), scalar(position)},
                     {uniform({s.batch, 2, positions, s.heads, s.width}, "cache", -2, 2)},
                     static_cast<double>(std::max<std::int64_t>(positions, s.width)),
                     cached_magnitude});
  return cases;
}

namespace {

TEST(AttentionGradient, equals_central_differences) {
  enum class Sees { all, earlier, documents };
  for (const double rate : {0., 0.3})
    for (const Sees sees : {Sees::all, Sees::earlier, Sees::documents}) {
      Options options{.rate = rate, .causal = sees != Sees::all};
      if (sees == Sees::documents) options.starts = documents_of(2, 5, {2, 1, 3});
      const op::Attention op = attention(options);
      const Array qkv = uniform({2, 5, 3, 2, 3}, "qkv");
      const Arrays reads = gradient_reads(options, qkv);
      for (const Backend& backend : {exact, Backend{"vector"}})
        expect_gradient(op, with_options({qkv}, options), 0, {reads[3]},
                        apply(attention_gradient(op), backend, reads).values[0]);
    }
}

/// Softmax over all T x T scores of one head, those that are not seen at -infinity; without starts
/// all are seen.
std::vector<double> dense_attention(const Array& qkv, const std::optional<Array>& starts,
                                    std::int64_t sample, std::int64_t head) {
  const AttentionBounds at(qkv);
  const std::int64_t time = qkv.shape[1], width = qkv.shape[4];
  std::vector<double> y;
  for (std::int64_t t = 0; t < time; ++t) {
    std::vector<double> weights;
    double sum = 0;
    for (std::int64_t s = 0; s < time; ++s) {
      const bool is_seen =
          !starts || (s <= t && static_cast<double>(s) >=
                                    starts->data[static_cast<std::size_t>(sample * time + t)]);
      const double score =
          is_seen ? at.score(sample, head, t, s, false) : -std::numeric_limits<double>::infinity();
      weights.push_back(std::exp(score));
      sum += weights.back();
    }
    for (std::int64_t d = 0; d < width; ++d) {
      double mean = 0;
      for (std::int64_t s = 0; s < time; ++s)
        mean += weights[static_cast<std::size_t>(s)] / sum * at.element(sample, s, 2, head, d);
      y.push_back(mean);
    }
  }
  return y;
}

void expect_dense_attention(const Options& options) {
  const Array qkv = uniform({2, 61, 3, 2, 3}, "qkv");
  for (const Backend& backend : {exact, Backend{"vector"}}) {
    const Array y = apply(attention(options), backend, with_options({qkv}, options)).values[0];
    for (std::int64_t sample = 0; sample < 2; ++sample)
      for (std::int64_t head = 0; head < 2; ++head) {
        const std::vector<double> expected = dense_attention(qkv, options.starts, sample, head);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          const std::size_t t = i / 3, d = i % 3;
          const std::size_t at =
              ((static_cast<std::size_t>(sample) * 61 + t) * 2 + static_cast<std::size_t>(head)) *
                  3 +
              d;
          // |v| <= 1, scores at most sqrt(3); sums of 61 terms.
          EXPECT_NEAR(y.data[at], expected[i], 8 * 0x1p-52 * 8 * (1 + 2 * std::sqrt(3.)))
              << to_string(backend) << " token " << t;
        }
      }
  }
}

/// Few heads are cut into pieces for many threads: of queries, and backward of keys as well.
TEST(Attention, has_the_same_bits_where_many_threads_share_few_heads) {
  for (const Case& sample : attention_cases()) {
    SCOPED_TRACE(format("{} {}", op::name(sample.op), sample.name));
    if (op::name(sample.op) == op::name(op::Op(op::AttentionCached{}))) continue;
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const auto on = [&](int threads) {
        return apply(sample.op, {"vector", dtype, threads}, sample.reads, sample.updates).bytes;
      };
      const auto alone = on(1);
      for (const int threads : {4, 7, 16}) EXPECT_EQ(on(threads), alone) << threads;
    }
  }
}

TEST(Attention, within_documents_is_a_dense_masked_softmax) {
  expect_dense_attention({.starts = documents_of(2, 61, {7, 1, 50})});
}

TEST(Attention, that_is_not_causal_is_a_dense_softmax) {
  expect_dense_attention({.causal = false});
}

/// The same numbers, in another order of dims.
Array reshaped(Array array, const Shape& shape) {
  array.shape = shape;
  return array;
}

TEST(Attention, takes_the_pixels_of_a_picture_as_tokens) {
  const Options options{.rate = 0.2, .causal = false};
  const op::Attention op = attention(options);
  const Array qkv = uniform({2, 12, 3, 2, 5}, "qkv");
  Arrays in_a_row = gradient_reads(options, qkv), of_pixels = in_a_row;
  of_pixels[0] = reshaped(qkv, {2, 3, 4, 3, 2, 5});
  for (const std::size_t i : {1U, 3U}) of_pixels[i] = reshaped(in_a_row[i], {2, 3, 4, 2, 5});
  of_pixels[2] = reshaped(in_a_row[2], {2, 2, 3, 4});
  for (const Backend& backend : {exact, Backend{"vector", DType::f32, 2}}) {
    SCOPED_TRACE(to_string(backend));
    EXPECT_EQ(apply(op, backend, with_options({of_pixels[0]}, options)).bytes,
              apply(op, backend, with_options({qkv}, options)).bytes);
    EXPECT_EQ(apply(attention_gradient(op), backend, of_pixels).bytes,
              apply(attention_gradient(op), backend, in_a_row).bytes);
  }
}

/// Tokens [first, first + count) of the only sample.
Array tokens_of(const Array& tensor, std::int64_t first, std::int64_t count) {
  Shape shape = tensor.shape;
  shape[1] = count;
  const std::int64_t row = tensor.shape.elements(2, tensor.shape.rank());
  Array part = filled(shape, 0);
  std::copy_n(tensor.data.begin() + first * row, count * row, part.data.begin());
  return part;
}

TEST(Attention, within_documents_is_that_of_each_document_alone) {
  const std::vector<std::int64_t> lengths = {30, 1, 96, 9, 51, 1};
  const Array qkv = uniform({1, 188, 3, 2, 8}, "qkv"), starts = documents_of(1, 188, lengths);
  const Options together{0, starts};
  for (const Backend& backend : {exact, Backend{"vector", DType::f32}}) {
    const Arrays reads = gradient_reads(together, qkv);
    const Array y = apply(attention(together), backend, {qkv, starts}).values[0];
    const Array gradient = apply(attention_gradient(attention(together)), backend, reads).values[0];
    std::int64_t first = 0;
    for (const std::int64_t length : lengths) {
      const Array own = tokens_of(qkv, first, length);
      Arrays own_reads = gradient_reads({}, own);
      own_reads[3] = tokens_of(reads[3], first, length);
      const Array expected = apply(attention(0.), backend, {own}).values[0],
                  expected_gradient =
                      apply(attention_gradient(attention(0.)), backend, own_reads).values[0];
      const Array got = tokens_of(y, first, length),
                  got_gradient = tokens_of(gradient, first, length);
      // The reference has the same order of sums; blocks and panels lie otherwise, so the others
      // have not: |v|, |y_grad| <= 1, scores at most sqrt(8), sums of at most 96 terms.
      const double eps = backend.dtype == DType::f32 ? 0x1p-23 : 0;
      const double bound = 8 * eps * std::sqrt(96.) * (1 + 4 * std::sqrt(8.));
      for (std::size_t i = 0; i < got.data.size(); ++i)
        EXPECT_NEAR(got.data[i], expected.data[i], bound) << to_string(backend) << " " << first;
      for (std::size_t i = 0; i < got_gradient.data.size(); ++i)
        EXPECT_NEAR(got_gradient.data[i], expected_gradient.data[i], bound * std::sqrt(8.))
            << to_string(backend) << " " << first;
      first += length;
    }
  }
}

/// The reference, own loops in each type, and where the CPU has them, products of bf16.
std::vector<Backend> of_all_kinds() {
  std::vector<Backend> backends = {exact, {"vector", DType::f32}, {"vector"}};
  for (const Backend& backend : backends_of(attention(0.)))
    if (backend.dtype == DType::bf16 && backend.implementation != "reference")
      backends.push_back(backend);
  return backends;
}

TEST(Attention, of_one_document_has_the_bits_of_attention_without_documents) {
  const Array qkv = uniform({2, 107, 3, 2, 8}, "qkv");
  for (const double rate : {0., 0.2})
    for (const Backend& backend : of_all_kinds()) {
      SCOPED_TRACE(to_string(backend));
      const Options one{rate, filled({2, 107}, 0)};
      EXPECT_EQ(apply(attention(one), backend, with_options({qkv}, one)).bytes,
                apply(attention(rate), backend, with_random({qkv}, rate)).bytes);
      EXPECT_EQ(
          apply(attention_gradient(attention(one)), backend, gradient_reads(one, qkv)).bytes,
          apply(attention_gradient(attention(rate)), backend, gradient_reads({rate}, qkv)).bytes);
    }
}

TEST(Attention, does_not_see_other_documents) {
  const Array qkv = uniform({1, 120, 3, 2, 4}, "qkv"), starts = documents_of(1, 120, {31, 60, 29});
  Array changed = qkv;
  for (std::size_t i = 0; i < changed.data.size(); ++i)
    if (i < 31 * 24 || i >= 91 * 24) changed.data[i] = 1;
  for (const Backend& backend : of_all_kinds()) {
    SCOPED_TRACE(to_string(backend));
    const op::Attention op = attention({0, starts});
    const std::vector<double> before = apply(op, backend, {qkv, starts}).values[0].data;
    const std::vector<double> after = apply(op, backend, {changed, starts}).values[0].data;
    EXPECT_TRUE(
        std::equal(before.begin() + 31 * 8, before.begin() + 91 * 8, after.begin() + 31 * 8));
    EXPECT_NE(before, after);
  }
}

TEST(Attention, does_not_depend_on_how_heads_and_samples_are_cut) {
  const Array qkv = uniform({2, 6, 3, 4, 2}, "qkv");
  const op::Attention whole{random_stream("attention"), 0.4, {0, 4, 0}, 0, 4};
  const Array expected = apply(whole, exact, with_random({qkv}, 0.4)).values[0];
  for (const Backend& backend : {exact, Backend{"vector"}})
    for (std::int64_t sample = 0; sample < 2; ++sample)
      for (std::int64_t head = 0; head < 4; ++head) {
        Array part = filled({1, 6, 3, 1, 2}, 0);
        for (std::int64_t row = 0; row < 18; ++row)
          for (std::int64_t d = 0; d < 2; ++d)
            part.data[static_cast<std::size_t>(row * 2 + d)] =
                qkv.data[static_cast<std::size_t>(((sample * 18 + row) * 4 + head) * 2 + d)];
        const op::Attention op{whole.stream, 0.4, {0, 4, sample}, head, 4};
        const Array got = apply(op, backend, with_random({part}, 0.4)).values[0];
        for (std::int64_t t = 0; t < 6; ++t)
          for (std::int64_t d = 0; d < 2; ++d)
            EXPECT_NEAR(
                got.data[static_cast<std::size_t>(t * 2 + d)],
                expected.data[static_cast<std::size_t>(((sample * 6 + t) * 4 + head) * 2 + d)],
                1e-14);
      }
}

TEST(Attention, ignores_what_comes_later) {
  const Array qkv = uniform({1, 60, 3, 2, 4}, "qkv");
  Array changed = qkv;
  for (std::size_t i = static_cast<std::size_t>(31 * 3 * 2 * 4); i < changed.data.size(); ++i)
    changed.data[i] = 1;
  for (const Backend& backend : of_all_kinds()) {
    SCOPED_TRACE(to_string(backend));
    const std::vector<double> before = apply(attention(0), backend, {qkv}).values[0].data;
    const std::vector<double> after = apply(attention(0), backend, {changed}).values[0].data;
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + 31 * 2 * 4, after.begin()));
  }
}

/// Runs a text through the cache in pieces of the given lengths.
Array continued(const Array& qkv, const Backend& backend,
                const std::vector<std::int64_t>& lengths) {
  const std::int64_t batch = qkv.shape[0], time = qkv.shape[1], row = qkv.shape[3] * qkv.shape[4];
  Array cache = filled({batch, 2, time, qkv.shape[3], qkv.shape[4]}, 0);
  Array y = filled({batch, time, qkv.shape[3], qkv.shape[4]}, 0);
  std::int64_t position = 0;
  for (const std::int64_t length : lengths) {
    Array part = filled({batch, length, 3, qkv.shape[3], qkv.shape[4]}, 0);
    for (std::int64_t b = 0; b < batch; ++b)
      std::copy_n(qkv.data.begin() + (b * time + position) * 3 * row, length * 3 * row,
                  part.data.begin() + b * length * 3 * row);
    const Result result = apply(op::AttentionCached{time}, backend,
                                {part, scalar(static_cast<double>(position))}, {cache});
    cache = result.values[0];
    for (std::int64_t b = 0; b < batch; ++b)
      std::copy_n(result.values[1].data.begin() + b * length * row, length * row,
                  y.data.begin() + (b * time + position) * row);
    position += length;
  }
  return y;
}

TEST(AttentionCached, token_by_token_equals_attention_on_the_whole_text) {
  const Array qkv = uniform({2, 9, 3, 2, 5}, "qkv");
  const Array expected = apply(attention(0), exact, {qkv}).values[0];
  for (const Backend& backend : {exact, Backend{"vector"}, Backend{"vector", DType::f32}})
    for (const auto& lengths : {std::vector<std::int64_t>(9, 1), {4, 1, 1, 3}, {9}}) {
      const Array got = continued(qkv, backend, lengths);
      // ref_abs: |v| <= 1, scores <= sqrt(5); n = 9.
      const double eps = backend.dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
      for (std::size_t i = 0; i < got.data.size(); ++i)
        EXPECT_NEAR(got.data[i], expected.data[i], 8 * eps * 3 * (1 + 2 * std::sqrt(5.)))
            << to_string(backend);
    }
}

}  // namespace
}  // namespace fourfold::numerics
