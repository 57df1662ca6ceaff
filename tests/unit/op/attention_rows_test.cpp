// Rows of grouped attention and of what stands before it: shapes that are refused, and what their
// residue forms must give because they are other words for the same, or each other's gradients.
#include <gtest/gtest.h>

#include "support/residue_tensors.h"

namespace fourfold::op {
namespace {

void expect_refused(const Op& op, const std::vector<Shape>& reads) {
  const Outputs made = judge_outputs(op, reads);
  ASSERT_NE(made.mistake(), nullptr) << name(op);
  EXPECT_FALSE(made.mistake()->sentence.empty()) << name(op);
}

Attention grouped_attention(double rate = 0, bool documents = false) {
  return {{5}, rate, {1, 4, 2}, 1, 6, documents, true, true};
}
AttentionGradient gradient_of(const Attention& op) {
  return {op.stream, op.rate,      op.window, op.first_head,
          op.heads,  op.documents, op.causal, op.grouped};
}

TEST(AttentionRows, refuse_shapes_that_are_no_groups) {
  const Shape qkv{2, 3, 2, 5, 4}, y{2, 3, 2, 3, 4}, lse{2, 2, 3, 3};
  expect_refused(grouped_attention(), {{2, 3, 2, 2, 4}});
  expect_refused(grouped_attention(), {{2, 2, 5, 4}});
  expect_refused(grouped_attention(0, true), {qkv, {3}});
  expect_refused(gradient_of(grouped_attention()), {qkv, {2, 3, 6, 4}, lse, {2, 3, 6, 4}});
  expect_refused(gradient_of(grouped_attention()), {qkv, y, {2, 6, 3}, y});
  expect_refused(AttentionCached{2, true}, {qkv, {}});
  expect_refused(AttentionCached{9, true}, {{2, 3, 2, 2, 4}, {}});
  expect_refused(Rotary{}, {qkv});
  expect_refused(Rotary{{1, 1, 1}}, {qkv});
  expect_refused(Rotary{{1}}, {{2, 3, 2, 2, 4}});
  expect_refused(Rotary{{1}}, {{2, 3, 5, 4}});
  expect_refused(Rotary{{1}, 1, false, 0, -1}, {qkv});
  expect_refused(Rotary{{1}, 1, false, 0, std::int64_t{1} << 62}, {qkv});
  expect_refused(Rotary{{1}, 1, false, 2}, {qkv, {}});
  expect_refused(Rotary{{1}, 1, false, -4}, {qkv, {}});
  expect_refused(Rotary{{1}, 1, false, 9, 7}, {qkv, {}});
  expect_refused(Rotary{{1}, 1, false, 9, 0, true}, {qkv, {}, {2, 3}});
  expect_refused(Rotary{{1}, 1, false, 0, 0, true}, {qkv, {2, 4}});
  expect_refused(HeadNorm{}, {qkv, {4}, {5}});
  expect_refused(HeadNorm{}, {{2, 3, 2, 2, 4}, {4}, {4}});
  expect_refused(HeadNormGradient{}, {qkv, {4}, {4}, {2, 3, 2, 3}, qkv});
  expect_refused(HeadNormGradient{}, {qkv, {4}, {4}, {2, 3, 2, 4}, y});
  expect_refused(HeadNormWeightGradient{}, {qkv, {2, 3, 2, 5}, qkv});
  expect_refused(Gated{}, {{2, 3, 4}});
  expect_refused(Gated{}, {{2}});
  expect_refused(GatedGradient{}, {{2, 3, 2, 4}, {2, 3, 5}});
}

TEST(AttentionRows, refuse_a_bias_of_a_norm_that_is_not_centred) {
  const Shape x{2, 3, 4}, gain{4}, rows{2, 3};
  expect_refused(LayerNorm{1e-5, true, false, false}, {x, gain, gain});
  expect_refused(LayerNormWeightGradient{true, false, false, false}, {x, rows, x});
  expect_refused(LayerNormApply{1e-5, true, 4, false, false}, {x, {2, 2, 3, 1}, gain, gain});
  expect_refused(LayerNormApply{1e-5, false, 4, false, false}, {x, {2, 2, 3, 2}, gain});
  expect_refused(LayerNormGradient{false, false}, {x, gain, rows, rows});
  expect_refused(LayerNormGradientApply{4, false, false}, {x, gain, rows, x, {2, 3, 2}});
}

TEST(AttentionRows, count_the_work_of_heads_and_not_of_groups) {
  const Shape grouped{1, 8, 2, 5, 4}, plain{1, 8, 3, 6, 4};
  const auto work = [](const Op& op, const Shape& qkv) {
    std::vector<Shape> all = {qkv};
    for (const Shape& shape : outputs(op, all)) all.push_back(shape);
    return flops(op, all);
  };
  EXPECT_EQ(work(Attention{.stream = {}, .window = {}, .grouped = true}, grouped),
            work(Attention{}, plain));
  EXPECT_EQ(flops(AttentionCached{9, true}, std::vector<Shape>{grouped}),
            flops(AttentionCached{9}, std::vector<Shape>{plain}));
}

/// Rows are tried with these keys, and on residues from one source.
class ResidueGroups : public ::testing::Test {
 protected:
  OwnTensors made(const Op& op, const OwnTensors& reads) {
    return outputs_for(op, residues_, reads);
  }
  OwnTensor draw(const Shape& shape) { return draw_.tensor(shape); }
  OwnTensor integers(const Shape& shape, std::vector<Residue> elements) {
    return {shape, std::move(elements), true};
  }

  const Residues residues_{3};
  Draw draw_{5};
};

constexpr std::size_t tokens = 8, groups = 2, of_group = 3, heads = groups * of_group, width = 4;
const Shape grouped_shape{2, 4, groups, of_group + 2, width}, plain_shape{2, 4, 3, heads, width};

/// visit(index in a grouped qkv, index in one with a key and a value for each head).
template <class Visit>
void for_each_element(Visit visit) {
  std::size_t plain = 0;
  for (std::size_t token = 0; token < tokens; ++token)
    for (std::size_t part = 0; part < 3; ++part)
      for (std::size_t head = 0; head < heads; ++head)
        for (std::size_t d = 0; d < width; ++d) {
          const std::size_t of_token = part == 0 ? head % of_group : of_group + part - 1;
          visit(((token * groups + head / of_group) * (of_group + 2) + of_token) * width + d,
                plain++);
        }
}

TEST_F(ResidueGroups, attention_is_that_on_repeated_keys_and_values) {
  for (const bool documents : {false, true}) {
    const Attention op = grouped_attention(0.25, documents);
    Attention plain = op;
    plain.grouped = false, plain.first_head *= of_group, plain.heads *= of_group;
    OwnTensors more = {integers({}, {7}), integers({}, {9})};
    if (documents) more.insert(more.begin(), integers({2, 4}, {0, 0, 2, 2, 0, 1, 1, 1}));
    OwnTensors reads = {draw(grouped_shape)}, plain_reads = {draw(plain_shape)};
    for_each_element([&](std::size_t from, std::size_t to) {
      plain_reads[0].elements[to] = reads[0].elements[from];
    });
    reads.insert(reads.end(), more.begin(), more.end());
    plain_reads.insert(plain_reads.end(), more.begin(), more.end());
    OwnTensors outputs = made(op, reads), plain_outputs = made(plain, plain_reads);
    for (const std::size_t i : {0U, 1U}) EXPECT_EQ(outputs[i].elements, plain_outputs[i].elements);
    const OwnTensor y_grad = draw(outputs[0].shape);
    OwnTensor plain_grad = y_grad;
    plain_grad.shape = plain_outputs[0].shape;
    reads.insert(reads.begin() + 1, {outputs[0], outputs[1], y_grad});
    plain_reads.insert(plain_reads.begin() + 1, {plain_outputs[0], plain_outputs[1], plain_grad});
    const OwnTensor grad = made(gradient_of(op), reads)[0],
                    of_heads = made(gradient_of(plain), plain_reads)[0];
    std::vector<Residue> sums(grad.elements.size());
    for_each_element([&](std::size_t to, std::size_t from) {
      sums[to] = add(sums[to], of_heads.elements[from]);
    });
    EXPECT_EQ(grad.elements, sums);
  }
}

TEST_F(ResidueGroups, attention_over_a_cache_continues_a_text) {
  const OwnTensor qkv = draw({1, 4, groups, of_group + 2, width});
  const OwnTensor y = made(Attention{.stream = {}, .window = {}, .grouped = true}, {qkv})[0];
  const auto rows = [](const OwnTensor& x, std::size_t first, std::size_t last) {
    const auto row = static_cast<std::ptrdiff_t>(x.elements.size() / 4);
    OwnTensor part = x;
    part.shape[1] = static_cast<std::int64_t>(last - first);
    part.elements.assign(x.elements.begin() + row * static_cast<std::ptrdiff_t>(first),
                         x.elements.begin() + row * static_cast<std::ptrdiff_t>(last));
    return part;
  };
  OwnTensor cache = draw({1, 2, 6, groups, width});
  for (const auto& [first, last] : {std::pair<std::size_t, std::size_t>{0, 3}, {3, 4}}) {
    OwnTensors all = {rows(qkv, first, last), integers({}, {first}), cache, rows(y, first, last)};
    const OwnTensor expected = all[3];
    std::ranges::fill(all[3].elements, 7);
    compute_whole(AttentionCached{6, true}, residues_, all);
    EXPECT_EQ(all[3], expected);
    cache = all[2];
  }
}

Residue product(const OwnTensor& a, const OwnTensor& b) {
  Residue sum = 0;
  for (std::size_t i = 0; i < a.elements.size(); ++i)
    sum = add(sum, multiply(a.elements[i], b.elements[i]));
  return sum;
}

TEST_F(ResidueGroups, turning_back_is_the_gradient_of_turning) {
  const OwnTensor x = draw(grouped_shape), y_grad = draw(grouped_shape);
  const OwnTensor starts = integers({2, 4}, {0, 0, 2, 2, 0, 1, 1, 1});
  for (const bool documents : {false, true}) {
    const Rotary op{{0.5}, 1.25, false, 0, 3, documents}, back{{0.5}, 1.25, true, 0, 3, documents};
    const auto turned = [&](const Rotary& row, const OwnTensor& of) {
      return made(row, documents ? OwnTensors{of, starts} : OwnTensors{of})[0];
    };
    EXPECT_EQ(product(turned(op, x), y_grad), product(x, turned(back, y_grad)));
    EXPECT_NE(turned(op, x), turned(back, x));
  }
}

TEST_F(ResidueGroups, positions_count_from_the_first_row_from_the_cache_or_from_documents) {
  const OwnTensor x = draw(grouped_shape);
  const OwnTensors from_row = made(Rotary{{0.5, 2}, 1, false, 0, 3}, {x});
  EXPECT_EQ(from_row, made(Rotary{{0.5, 2}, 1, false, 9}, {x, integers({}, {3})}));
  EXPECT_EQ(from_row, made(Rotary{{0.5, 2}, 1, false, 0, 5, true},
                           {x, integers({2, 4}, std::vector<Residue>(8, 2))}));
  EXPECT_NE(from_row, made(Rotary{{0.5, 2}}, {x}));
  for (const Residue beyond : {Residue{6}, ~Residue{0}})
    EXPECT_EQ(made(Rotary{{0.5, 2}, 1, false, 9}, {x, integers({}, {beyond})})[0].elements,
              std::vector<Residue>(x.elements.size(), not_finite));
}

TEST_F(ResidueGroups, a_norm_of_heads_is_a_norm_that_is_not_centred) {
  const OwnTensor x = draw(grouped_shape), q_gain = draw({width}), k_gain = draw({width}),
                  y_grad = draw(grouped_shape);
  const OwnTensors norm = made(HeadNorm{1e-3}, {x, q_gain, k_gain});
  const OwnTensor x_grad = made(HeadNormGradient{}, {x, q_gain, k_gain, norm[1], y_grad})[0];
  const OwnTensors gain_grads = made(HeadNormWeightGradient{}, {x, norm[1], y_grad});
  OwnTensors sums = {gain_grads[0], gain_grads[1]};
  for (OwnTensor& sum : sums) std::ranges::fill(sum.elements, 0);
  std::size_t rstd = 0;
  for (std::size_t vector = 0; vector < tokens * groups * (of_group + 2); ++vector) {
    const auto of = [&](const OwnTensor& all) {
      const auto begin = all.elements.begin() + static_cast<std::ptrdiff_t>(vector * width);
      return OwnTensor{{1, width}, {begin, begin + width}, false};
    };
    const std::size_t place = vector % (of_group + 2);
    if (place == of_group + 1) {
      EXPECT_EQ(of(norm[0]), of(x));
      EXPECT_EQ(of(x_grad), of(y_grad));
      continue;
    }
    const OwnTensor& gain = place == of_group ? k_gain : q_gain;
    const OwnTensors one = made(LayerNorm{1e-3, false, false, false}, {of(x), gain});
    EXPECT_EQ(of(norm[0]), one[0]);
    EXPECT_EQ(norm[1].elements[rstd++], one[1].elements[0]);
    EXPECT_EQ(of(x_grad),
              made(LayerNormGradient{false, false}, {of(x), gain, one[1], of(y_grad)})[0]);
    const OwnTensor term =
        made(LayerNormWeightGradient{false, false, false, false}, {of(x), one[1], of(y_grad)})[0];
    OwnTensor& sum = sums[place == of_group ? 1 : 0];
    for (std::size_t i = 0; i < width; ++i)
      sum.elements[i] = add(sum.elements[i], term.elements[i]);
  }
  EXPECT_EQ(gain_grads, sums);
}

TEST_F(ResidueGroups, a_gate_multiplies_with_what_silu_gives) {
  const OwnTensor x = draw({3, 2, 5}), y_grad = draw({3, 5});
  OwnTensor gate{{3, 5}, {}, false}, other = gate;
  for (std::size_t i = 0; i < 30; ++i)
    (i / 5 % 2 == 0 ? gate : other).elements.push_back(x.elements[i]);
  const OwnTensor silu = made(Silu{}, {gate})[0], y = made(Gated{}, {x})[0],
                  x_grad = made(GatedGradient{}, {x, y_grad})[0];
  OwnTensor scaled = y_grad;
  for (std::size_t i = 0; i < 15; ++i) {
    EXPECT_EQ(y.elements[i], multiply(silu.elements[i], other.elements[i]));
    scaled.elements[i] = multiply(y_grad.elements[i], other.elements[i]);
  }
  const OwnTensor gate_grad = made(SiluGradient{}, {gate, scaled})[0];
  for (std::size_t i = 0; i < 15; ++i) {
    const std::size_t at = i / 5 * 10 + i % 5;
    EXPECT_EQ(x_grad.elements[at], gate_grad.elements[i]);
    EXPECT_EQ(x_grad.elements[at + 5], multiply(y_grad.elements[i], silu.elements[i]));
  }
}

}  // namespace
}  // namespace fourfold::op
