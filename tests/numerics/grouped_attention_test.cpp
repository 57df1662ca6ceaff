// Attention whose heads share keys and values by groups: it is attention on keys and values that
// are repeated for each head, and their gradients are sums over these. B batch, T time, G groups, R
// heads of a group, D head width.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "base/format.h"
#include "numerics/harness.h"

namespace fourfold::numerics {
namespace {

struct GroupSizes {
  std::int64_t batch, time, groups, of_group, width;
  std::int64_t heads() const { return groups * of_group; }
  Shape grouped() const { return {batch, time, groups, of_group + 2, width}; }
};
GroupSizes sizes_of(const Array& grouped) {
  const Shape& s = grouped.shape;
  return {s[0], s[1], s[2], s[3] - 2, s[4]};
}

/// visit(index in a grouped tensor, index in one with a key and a value for each head) for all
/// elements of the latter.
template <class Visit>
void for_each_element(const GroupSizes& s, Visit visit) {
  std::size_t plain = 0;
  for (std::int64_t token = 0; token < s.batch * s.time; ++token)
    for (std::int64_t part = 0; part < 3; ++part)
      for (std::int64_t head = 0; head < s.heads(); ++head)
        for (std::int64_t d = 0; d < s.width; ++d) {
          const std::int64_t group = head / s.of_group,
                             of_token = part == 0 ? head % s.of_group : s.of_group + part - 1;
          visit(at(((token * s.groups + group) * (s.of_group + 2) + of_token) * s.width + d),
                plain++);
        }
}
Array repeated(const Array& grouped) {
  const GroupSizes s = sizes_of(grouped);
  Array made = filled({s.batch, s.time, 3, s.heads(), s.width}, 0);
  for_each_element(s,
                   [&](std::size_t from, std::size_t to) { made.data[to] = grouped.data[from]; });
  return made;
}
/// Sums over the heads of a group.
Array summed(const Array& plain, const GroupSizes& s) {
  Array made = filled(s.grouped(), 0);
  for_each_element(s, [&](std::size_t to, std::size_t from) { made.data[to] += plain.data[from]; });
  return made;
}

Array with_shape(Array array, const Shape& shape) {
  array.shape = shape;
  return array;
}
/// y (B,T,G,R,D) and lse (B,G,R,T) as those of heads.
Array y_of_heads(const Array& y) {
  const Shape& s = y.shape;
  return with_shape(y, {s[0], s[1], s[2] * s[3], s[4]});
}
Array lse_of_heads(const Array& lse) {
  const Shape& s = lse.shape;
  return with_shape(lse, {s[0], s[1] * s[2], s[3]});
}

op::Attention plain_attention(op::Attention op, const GroupSizes& s) {
  op.grouped = false;
  op.first_head *= s.of_group;
  op.heads *= s.of_group;
  return op;
}
op::AttentionGradient gradient_of(const op::Attention& op) {
  return {op.stream, op.rate,      op.window, op.first_head,
          op.heads,  op.documents, op.causal, op.grouped};
}

/// What rounding errors of plain attention and of its gradient are relative to
/// (attention_test.cpp).
auto plain_magnitude(bool of_gradient) {
  const std::vector<Case> cases = attention_cases();
  return cases[of_gradient ? 1 : 0].magnitude;
}

Arrays forward_magnitude(const Case& sample, const Arrays& outputs) {
  Case plain = sample;
  plain.op = plain_attention(sample.op.get<op::Attention>(), sizes_of(sample.reads[0]));
  plain.reads[0] = repeated(sample.reads[0]);
  Arrays made = plain_magnitude(false)(plain, {y_of_heads(outputs[0]), lse_of_heads(outputs[1])});
  return {with_shape(made[0], outputs[0].shape), with_shape(made[1], outputs[1].shape)};
}
Arrays gradient_magnitude(const Case& sample, const Arrays& outputs) {
  const GroupSizes s = sizes_of(sample.reads[0]);
  Case plain = sample;
  const auto& op = sample.op.get<op::AttentionGradient>();
  plain.op = gradient_of(plain_attention(
      {op.stream, op.rate, op.window, op.first_head, op.heads, op.documents, op.causal, true}, s));
  plain.reads[0] = repeated(sample.reads[0]);
  plain.reads[1] = y_of_heads(sample.reads[1]);
  plain.reads[2] = lse_of_heads(sample.reads[2]);
  plain.reads[3] = y_of_heads(sample.reads[3]);
  EXPECT_EQ(outputs[0].shape, s.grouped());
  return {summed(plain_magnitude(true)(plain, {filled(plain.reads[0].shape, 0)})[0], s)};
}

struct Options {
  double rate = 0;
  std::vector<std::int64_t> document_lengths = {};
  bool causal = true;
};
op::Attention attention(const Options& options) {
  op::Attention op{random_stream("attention"), options.rate, {1, 8, 2}, 1, 5};
  op.documents = !options.document_lengths.empty();
  op.causal = options.causal;
  op.grouped = true;
  return op;
}
Arrays with_options(Arrays reads, const Options& options) {
  if (!options.document_lengths.empty()) {
    const Shape& qkv = reads[0].shape;
    Array starts = filled({qkv[0], qkv[1]}, 0);
    std::int64_t start = 0, end = 0;
    std::size_t next = 0;
    for (std::int64_t token = 0; token < qkv[0] * qkv[1]; ++token) {
      const std::int64_t t = token % qkv[1];
      if (t == 0 || t == end) {
        start = t;
        end = t + options.document_lengths[next++ % options.document_lengths.size()];
      }
      starts.data[at(token)] = static_cast<double>(start);
    }
    reads.push_back(starts);
  }
  if (options.rate != 0) reads.insert(reads.end(), {scalar(99), scalar(5)});
  return reads;
}
Array qkv_of(const GroupSizes& s) {
  return uniform(s.grouped(), "qkv", -2, 2);
}
Arrays gradient_reads(const Options& options, const Array& qkv) {
  const Arrays made = apply(attention(options), exact, with_options({qkv}, options)).values;
  Arrays reads = {qkv, made[0], made[1], uniform(made[0].shape, "grad")};
  const Arrays more = with_options({qkv}, options);
  reads.insert(reads.end(), more.begin() + 1, more.end());
  return reads;
}

void add_cases(std::vector<Case>& cases, const GroupSizes& s, const Options& options) {
  const Array qkv = qkv_of(s);
  const auto longest = static_cast<double>(std::max(s.time * s.of_group, s.width));
  const op::Attention op = attention(options);
  cases.push_back({"grouped", op, with_options({qkv}, options), {}, longest, forward_magnitude});
  cases.push_back(
      {"grouped", gradient_of(op), gradient_reads(options, qkv), {}, longest, gradient_magnitude});
}

}  // namespace

std::vector<Case> grouped_attention_cases() {
  std::vector<Case> cases;
  // One head a group, one group, several; a token, more than a block, heads that fill no register.
  for (const GroupSizes& s :
       {GroupSizes{1, 1, 1, 1, 2}, GroupSizes{2, 7, 3, 1, 5}, GroupSizes{2, 61, 2, 3, 8},
        GroupSizes{1, 70, 1, 4, 64}, GroupSizes{1, 107, 3, 2, 33}})
    for (const double rate : {0., 0.2}) add_cases(cases, s, {.rate = rate});
  add_cases(cases, {2, 107, 2, 3, 16}, {.document_lengths = {1, 1, 3, 20, 17, 48, 2, 70, 5}});
  add_cases(cases, {1, 130, 1, 2, 16}, {0.2, {96, 3, 7}});
  add_cases(cases, {1, 67, 2, 2, 128}, {.causal = false});
  add_cases(cases, {1, 35, 1, 2, 312}, {.rate = 0.2, .causal = false});
  const auto cached_magnitude = attention_cases().back().magnitude;
  for (const auto& [s, position, positions] : {std::tuple{GroupSizes{2, 1, 2, 3, 6}, 5, 9},
                                               std::tuple{GroupSizes{1, 50, 1, 4, 32}, 20, 80}})
    cases.push_back({"continued",
                     op::AttentionCached{positions, true},
                     {qkv_of(s), scalar(position)},
                     {uniform({s.batch, 2, positions, s.groups, s.width}, "cache", -2, 2)},
                     static_cast<double>(std::max<std::int64_t>(positions, s.width)),
                     cached_magnitude});
  return cases;
}

namespace {

const GroupSizes several{2, 107, 2, 3, 20};
const std::vector<Options> ways = {
    {}, {.rate = 0.2}, {0.2, {31, 60, 1, 29}}, {.rate = 0.2, .causal = false}};

TEST(GroupedAttention, is_attention_on_repeated_keys_and_values) {
  const Array qkv = qkv_of(several);
  for (const Options& options : ways)
    for (const Backend& backend : backends_of(attention(options))) {
      SCOPED_TRACE(to_string(backend));
      const op::Attention op = attention(options);
      const auto made = apply(op, backend, with_options({qkv}, options)).bytes;
      Arrays reads = with_options({qkv}, options);
      reads[0] = repeated(qkv);
      EXPECT_EQ(made, apply(plain_attention(op, several), backend, reads).bytes);
    }
}

TEST(GroupedAttention, adds_the_gradients_of_the_heads_of_a_group) {
  const Array qkv = qkv_of(several);
  for (const Options& options : ways)
    for (const Backend& backend : {exact, Backend{"vector"}, Backend{"vector", DType::f64, 3}}) {
      SCOPED_TRACE(to_string(backend));
      const op::Attention op = attention(options);
      Arrays reads = gradient_reads(options, qkv);
      const Array made = apply(gradient_of(op), backend, reads).values[0];
      reads[0] = repeated(qkv);
      reads[1] = y_of_heads(reads[1]), reads[3] = y_of_heads(reads[3]);
      reads[2] = lse_of_heads(reads[2]);
      const Array expected =
          summed(apply(gradient_of(plain_attention(op, several)), exact, reads).values[0], several);
      for (std::size_t i = 0; i < made.data.size(); ++i)
        EXPECT_NEAR(made.data[i], expected.data[i], 1e-12) << i;
    }
}

TEST(GroupedAttention, has_a_gradient_that_equals_central_differences) {
  for (const Options& options : ways) {
    const Array qkv = uniform({2, 5, 2, 5, 3}, "qkv");
    const Arrays reads = gradient_reads(options, qkv);
    for (const Backend& backend : {exact, Backend{"vector"}})
      expect_gradient(attention(options), with_options({qkv}, options), 0, {reads[3]},
                      apply(gradient_of(attention(options)), backend, reads).values[0]);
  }
}

TEST(GroupedAttention, has_the_same_bits_for_any_number_of_threads) {
  for (const Case& sample : grouped_attention_cases()) {
    SCOPED_TRACE(format("{} {}", op::name(sample.op), to_string(sample.reads[0].shape)));
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const auto on = [&](int threads) {
        return apply(sample.op, {"vector", dtype, threads}, sample.reads, sample.updates).bytes;
      };
      for (const int threads : {2, 5, 16}) EXPECT_EQ(on(threads), on(1)) << threads;
    }
  }
}

/// One group of the only sample.
Array group_of(const Array& tensor, std::int64_t group) {
  Shape shape = tensor.shape;
  const std::int64_t groups = shape[2], of_group = shape[3] * shape[4];
  shape[2] = 1;
  Array made = filled(shape, 0);
  for (std::int64_t token = 0; token < shape[1]; ++token)
    std::copy_n(tensor.data.begin() + (token * groups + group) * of_group, of_group,
                made.data.begin() + token * of_group);
  return made;
}

TEST(GroupedAttention, does_not_depend_on_how_groups_are_cut) {
  const Options options{.rate = 0.4};
  const Array qkv = qkv_of({1, 9, 3, 2, 4});
  op::Attention op = attention(options);
  op.first_head = 0, op.heads = 3;
  for (const Backend& backend : {exact, Backend{"vector"}}) {
    const Array whole = apply(op, backend, with_options({qkv}, options)).values[0];
    for (std::int64_t group = 0; group < 3; ++group) {
      op::Attention part = op;
      part.first_head = group;
      EXPECT_EQ(apply(part, backend, with_options({group_of(qkv, group)}, options)).values[0].data,
                group_of(whole, group).data);
    }
  }
}

TEST(GroupedAttentionCached, token_by_token_equals_attention_on_the_whole_text) {
  constexpr std::int64_t time = 9;
  const GroupSizes s{1, time, 2, 3, 5};
  const Array qkv = uniform(s.grouped(), "qkv");
  const Array expected =
      apply(op::Attention{.stream = {}, .window = {}, .grouped = true}, exact, {qkv}).values[0];
  for (const Backend& backend : {exact, Backend{"vector"}, Backend{"vector", DType::f32}})
    for (const auto& lengths : {std::vector<std::int64_t>(time, 1), {4, 1, 1, 3}, {time}}) {
      Array cache = filled({1, 2, time, s.groups, s.width}, 0);
      std::vector<double> made;
      std::int64_t position = 0;
      for (const std::int64_t length : lengths) {
        Shape shape = qkv.shape;
        shape[1] = length;
        Array part = filled(shape, 0);
        std::copy_n(qkv.data.begin() + position * shape.elements(2, 5), part.data.size(),
                    part.data.begin());
        const Result result = apply(op::AttentionCached{time, true}, backend,
                                    {part, scalar(static_cast<double>(position))}, {cache});
        cache = result.values[0];
        made.insert(made.end(), result.values[1].data.begin(), result.values[1].data.end());
        position += length;
      }
      const double eps = backend.dtype == DType::f32 ? 0x1p-23 : 0x1p-52;
      for (std::size_t i = 0; i < made.size(); ++i)
        EXPECT_NEAR(made[i], expected.data[i], 8 * eps * 3 * (1 + 2 * std::sqrt(5.)));
    }
}

}  // namespace
}  // namespace fourfold::numerics
