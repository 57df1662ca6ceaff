// Residue forms of attention and of what stands before it, in the order of attention.h. What an
// index points at outside of an operand is not finite. exp(a - b) is E(a) / E(b), and lse is L(sum
// of E).
#include "op/attention.h"

#include <array>
#include <cmath>
#include <optional>

#include "op/residue_loops.h"

namespace fourfold::op {

namespace {

/// The vectors of D elements in qkv (B, T, 3, H, D) and y (B, T, H, D), T being one dim or several;
/// or in a grouped qkv (B, T, G, R + 2, D) and y (B, T, G, R, D), H then being G R.
struct HeadSizes {
  std::size_t batch, time, groups, of_group, heads, width;
  bool grouped;
  Residue scale;  // of scores
  HeadSizes(const Shape& qkv, bool is_grouped)
      : batch(static_cast<std::size_t>(qkv[0])),
        time(static_cast<std::size_t>(qkv.elements(1, qkv.rank() - 3))),
        groups(static_cast<std::size_t>(qkv[qkv.rank() - (is_grouped ? 3 : 2)])),
        of_group(is_grouped ? static_cast<std::size_t>(qkv[qkv.rank() - 2]) - 2 : 1),
        heads(groups * of_group),
        width(static_cast<std::size_t>(qkv.back())),
        grouped(is_grouped),
        scale(residue_of(1 / std::sqrt(static_cast<double>(width)))) {}

  enum Part : std::size_t { query, key, value };
  std::span<Residue> in_qkv(const ResidueTensor& qkv, std::size_t b, std::size_t t, Part part,
                            std::size_t h) const {
    const std::size_t token = b * time + t, group = h / of_group;
    const std::size_t of_token = part == query ? h % of_group : of_group + part - 1;
    const std::size_t vector = grouped ? (token * groups + group) * (of_group + 2) + of_token
                                       : (token * 3 + part) * heads + h;
    return qkv.elements.subspan(vector * width, width);
  }
  std::span<Residue> in_y(const ResidueTensor& y, std::size_t b, std::size_t t,
                          std::size_t h) const {
    return y.elements.subspan(((b * time + t) * heads + h) * width, width);
  }
  std::size_t in_lse(std::size_t b, std::size_t h, std::size_t t) const {
    return (b * heads + h) * time + t;
  }
  /// visit(b, h, t) for each query.
  template <class Visit>
  void for_each_query(Visit&& visit) const {
    for (std::size_t b = 0; b < batch; ++b)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t t = 0; t < time; ++t) visit(b, h, t);
  }
};

/// The keys [begin, end) that a query sees: none where its document does not begin among those up
/// to it.
struct KeyRange {
  std::size_t begin, end;
};

/// What attention and its gradient read beside tensors of the computation.
template <class AttentionOp>
class AttentionOptions {
 public:
  /// `first` is the place of these operands.
  AttentionOptions(const AttentionOp& op, const Residues& residues, ResidueTensors all,
                   const HeadSizes& sizes, std::size_t first)
      : op_(op), sizes_(sizes) {
    if (op.documents) starts_ = all[first++].elements;
    if (op.rate != 0)
      factor_.emplace(residues, op.stream, op.rate, all[first].elements[0],
                      all[first + 1].elements[0]);
  }
  KeyRange keys(std::size_t b, std::size_t t) const {
    const std::size_t end = op_.causal ? t + 1 : sizes_.time;
    return {starts_.empty() ? 0 : local_place(starts_[b * sizes_.time + t], 0, end), end};
  }
  /// What dropout multiplies the probability of key s with.
  Residue factor(std::size_t b, std::size_t h, std::size_t t, std::size_t s) const {
    if (!factor_) return 1;
    const std::uint64_t of_group = sizes_.of_group,
                        heads = static_cast<std::uint64_t>(op_.heads) * of_group,
                        first = static_cast<std::uint64_t>(op_.first_head) * of_group;
    const std::uint64_t head = (heads == 0 ? sizes_.heads : heads) *
                                   sample_of_step(op_.window, static_cast<std::int64_t>(b)) +
                               first + h;
    return (*factor_)((head * sizes_.time + t) * sizes_.time + s);
  }

 private:
  const AttentionOp& op_;
  const HeadSizes& sizes_;
  std::span<const Residue> starts_;
  std::optional<DropoutFactors> factor_;
};

/// E of the scores of a query against the keys, and the sum of these.
struct Exponentials {
  std::vector<Residue> of_keys;
  Residue sum = 0;
};
template <class KeyAt>
Exponentials exponentials_of_scores(const Residues& residues, const HeadSizes& sizes,
                                    std::span<const Residue> query, const KeyRange& keys,
                                    KeyAt key_at) {
  Exponentials made;
  for (std::size_t s = keys.begin; s < keys.end; ++s) {
    const Residue score = multiply(sizes.scale, dot(query, key_at(s)));
    made.of_keys.push_back(residues.exponential(score));
    made.sum = add(made.sum, made.of_keys.back());
  }
  return made;
}

/// y += weight value, element by element.
void add_scaled(std::span<Residue> y, Residue weight, std::span<const Residue> value) {
  for (std::size_t d = 0; d < y.size(); ++d) y[d] = add(y[d], multiply(weight, value[d]));
}

}  // namespace

void Attention::residue_form(const Residues& residues, ResidueTensors all) const {
  const HeadSizes sizes(all[0].shape, grouped);
  const auto &qkv = all[0], &y = all[all.size() - 2], &lse = all.back();
  const AttentionOptions options(*this, residues, all, sizes, 1);
  sizes.for_each_query([&](std::size_t b, std::size_t h, std::size_t t) {
    const KeyRange keys = options.keys(b, t);
    const auto out = sizes.in_y(y, b, t, h);
    if (keys.begin == keys.end) {
      std::ranges::fill(out, not_finite);
      lse.elements[sizes.in_lse(b, h, t)] = not_finite;
      return;
    }
    const Exponentials scores = exponentials_of_scores(
        residues, sizes, sizes.in_qkv(qkv, b, t, HeadSizes::query, h), keys,
        [&](std::size_t s) { return sizes.in_qkv(qkv, b, s, HeadSizes::key, h); });
    lse.elements[sizes.in_lse(b, h, t)] = residues.logarithm(scores.sum);
    const Residue inverse_sum = inverse(scores.sum);
    std::ranges::fill(out, 0);
    for (std::size_t s = keys.begin; s < keys.end; ++s) {
      const Residue p = multiply(scores.of_keys[s - keys.begin], inverse_sum);
      add_scaled(out, multiply(p, options.factor(b, h, t, s)),
                 sizes.in_qkv(qkv, b, s, HeadSizes::value, h));
    }
  });
}

void AttentionGradient::residue_form(const Residues& residues, ResidueTensors all) const {
  const HeadSizes sizes(all[0].shape, grouped);
  const auto &qkv = all[0], &y = all[1], &lse = all[2], &y_grad = all[3], &qkv_grad = all.back();
  const AttentionOptions options(*this, residues, all, sizes, 4);
  std::ranges::fill(qkv_grad.elements, 0);
  sizes.for_each_query([&](std::size_t b, std::size_t h, std::size_t t) {
    const auto at = [&](const ResidueTensor& tensor, std::size_t place, HeadSizes::Part part) {
      return sizes.in_qkv(tensor, b, place, part, h);
    };
    const KeyRange keys = options.keys(b, t);
    const auto query = at(qkv, t, HeadSizes::query), query_grad = at(qkv_grad, t, HeadSizes::query);
    if (keys.begin == keys.end) std::ranges::fill(query_grad, not_finite);
    const auto grad = sizes.in_y(y_grad, b, t, h);
    // The sum over the keys of p times its gradient, as y is the sum of p v.
    const Residue mean_grad = dot(grad, sizes.in_y(y, b, t, h));
    const Residue inverse_sum =
        inverse_of_exponential(residues, lse.elements[sizes.in_lse(b, h, t)]);
    for (std::size_t s = keys.begin; s < keys.end; ++s) {
      const auto key = at(qkv, s, HeadSizes::key);
      const Residue score = multiply(sizes.scale, dot(query, key));
      const Residue p = multiply(residues.exponential(score), inverse_sum);
      const Residue factor = options.factor(b, h, t, s);
      const Residue p_grad = multiply(factor, dot(grad, at(qkv, s, HeadSizes::value)));
      const Residue score_grad = multiply(multiply(sizes.scale, p), subtract(p_grad, mean_grad));
      add_scaled(query_grad, score_grad, key);
      add_scaled(at(qkv_grad, s, HeadSizes::key), score_grad, query);
      add_scaled(at(qkv_grad, s, HeadSizes::value), multiply(p, factor), grad);
    }
  });
}

void AttentionCached::residue_form(const Residues& residues, ResidueTensors all) const {
  const HeadSizes sizes(all[0].shape, grouped);
  const auto &qkv = all[0], &cache = all[2], &y = all[3];
  const auto held = static_cast<std::size_t>(cache.shape[2]);
  const std::size_t position = local_place(all[1].elements[0], 0, held + 1);
  if (position + sizes.time > held) {
    std::ranges::fill(y.elements, not_finite);
    return;
  }
  const auto cached = [&](std::size_t b, std::size_t part, std::size_t p, std::size_t h) {
    const std::size_t group = h / sizes.of_group;
    return cache.elements.subspan(
        (((b * 2 + part) * held + p) * sizes.groups + group) * sizes.width, sizes.width);
  };
  // In the order of t, so that all of the keys that a query sees are there.
  sizes.for_each_query([&](std::size_t b, std::size_t h, std::size_t t) {
    std::ranges::copy(sizes.in_qkv(qkv, b, t, HeadSizes::key, h),
                      cached(b, 0, position + t, h).begin());
    std::ranges::copy(sizes.in_qkv(qkv, b, t, HeadSizes::value, h),
                      cached(b, 1, position + t, h).begin());
    const KeyRange keys{0, position + t + 1};
    const Exponentials scores =
        exponentials_of_scores(residues, sizes, sizes.in_qkv(qkv, b, t, HeadSizes::query, h), keys,
                               [&](std::size_t s) { return cached(b, 0, s, h); });
    const Residue inverse_sum = inverse(scores.sum);
    const auto out = sizes.in_y(y, b, t, h);
    std::ranges::fill(out, 0);
    for (std::size_t s = 0; s < keys.end; ++s)
      add_scaled(out, multiply(scores.of_keys[s], inverse_sum), cached(b, 1, s, h));
  });
}

// --- queries, keys and values before attention

namespace {

/// A grouped qkv (B, T, G, S, D) as vectors of D elements, of which each group of a token has S.
struct QkvVectors {
  std::size_t time, tokens, groups, of_group, width;
  explicit QkvVectors(const Shape& qkv)
      : time(static_cast<std::size_t>(qkv[1])),
        tokens(static_cast<std::size_t>(qkv.elements(0, 2))),
        groups(static_cast<std::size_t>(qkv[2])),
        of_group(static_cast<std::size_t>(qkv[3])),
        width(static_cast<std::size_t>(qkv[4])) {}

  std::span<Residue> at(const ResidueTensor& qkv, std::size_t vector) const {
    return qkv.elements.subspan(vector * width, width);
  }
  /// visit(number of the vector, that of its token, place among those of its group) for each.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (std::size_t vector = 0; vector < tokens * groups * of_group; ++vector)
      visit(vector, vector / (groups * of_group), vector % of_group);
  }
  bool is_value(std::size_t place) const { return place + 1 == of_group; }
  bool is_key(std::size_t place) const { return place + 2 == of_group; }
  /// Where the rstd of a query or key stands.
  std::size_t in_rstd(std::size_t vector) const { return vector - vector / of_group; }
};

}  // namespace

void Rotary::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &qkv = all[0], &y = all.back();
  const QkvVectors vectors(qkv.shape);
  const Residue start = (positions == 0 ? 0 : all[1].elements[0]) + static_cast<Residue>(first);
  const std::size_t pairs = frequencies.size();
  const auto places = static_cast<std::size_t>(integer_bound(std::array{qkv.shape}));
  if (positions != 0 && local_place(all[1].elements[0], 0, places) == places) {
    std::ranges::fill(y.elements, not_finite);
    return;
  }
  const Residue scale = residue_of(factor);
  std::vector<Residue> cosines(pairs), sines(pairs);
  vectors.for_each([&](std::size_t vector, std::size_t token, std::size_t place) {
    if (vector % (vectors.groups * vectors.of_group) == 0) {
      const Residue position =
          start + token % vectors.time - (documents ? all[1].elements[token] : 0);
      for (std::size_t i = 0; i < pairs; ++i) {
        const Residue frequency = residue_of(frequencies[i]);
        cosines[i] =
            multiply(scale, residues.hash(function_name("cosine_of_angle"), {position, frequency}));
        sines[i] =
            multiply(scale, residues.hash(function_name("sine_of_angle"), {position, frequency}));
        if (negative) sines[i] = negate(sines[i]);
      }
    }
    const std::span<Residue> from = vectors.at(qkv, vector), to = vectors.at(y, vector);
    const std::size_t turned = vectors.is_value(place) ? 0 : pairs;
    for (std::size_t i = 0; i < turned; ++i) {
      const Residue a = from[i], b = from[pairs + i];  // y may be qkv
      to[i] = subtract(multiply(a, cosines[i]), multiply(b, sines[i]));
      to[pairs + i] = add(multiply(b, cosines[i]), multiply(a, sines[i]));
    }
    for (std::size_t i = 2 * turned; i < vectors.width; ++i) to[i] = from[i];
  });
}

void HeadNorm::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &qkv = all[0], &y = all[3], &rstd = all[4];
  const QkvVectors vectors(qkv.shape);
  const Residue share = one_over(static_cast<std::int64_t>(vectors.width));
  vectors.for_each([&](std::size_t vector, std::size_t, std::size_t place) {
    const std::span<Residue> x = vectors.at(qkv, vector), to = vectors.at(y, vector);
    if (vectors.is_value(place)) return void(std::ranges::copy(x, to.begin()));
    const std::span<const Residue> gain = all[vectors.is_key(place) ? 2 : 1].elements;
    const Residue of_vector = reciprocal_deviation(residues, multiply(dot(x, x), share), epsilon);
    rstd.elements[vectors.in_rstd(vector)] = of_vector;
    for (std::size_t i = 0; i < x.size(); ++i) to[i] = multiply(multiply(x[i], of_vector), gain[i]);
  });
}

void HeadNormGradient::residue_form(const Residues&, ResidueTensors all) const {
  const auto &qkv = all[0], &rstd = all[3], &y_grad = all[4], &qkv_grad = all[5];
  const QkvVectors vectors(qkv.shape);
  const Residue share = one_over(static_cast<std::int64_t>(vectors.width));
  vectors.for_each([&](std::size_t vector, std::size_t, std::size_t place) {
    const std::span<Residue> x = vectors.at(qkv, vector), grad = vectors.at(y_grad, vector),
                             to = vectors.at(qkv_grad, vector);
    if (vectors.is_value(place)) {
      for (std::size_t i = 0; i < x.size(); ++i) to[i] = grad[i];
      return;
    }
    const std::span<const Residue> gain = all[vectors.is_key(place) ? 2 : 1].elements;
    const Residue of_vector = rstd.elements[vectors.in_rstd(vector)];
    ProductSum sum;  // of y_grad gain and the normal x
    for (std::size_t i = 0; i < x.size(); ++i)
      sum.add_product(multiply(grad[i], gain[i]), multiply(x[i], of_vector));
    const Residue mean = multiply(sum.value(), share);
    for (std::size_t i = 0; i < x.size(); ++i)
      to[i] = multiply(of_vector, subtract(multiply(grad[i], gain[i]),
                                           multiply(multiply(x[i], of_vector), mean)));
  });
}

void HeadNormWeightGradient::residue_form(const Residues&, ResidueTensors all) const {
  const auto &qkv = all[0], &rstd = all[1], &y_grad = all[2];
  const QkvVectors vectors(qkv.shape);
  for (const std::size_t operand : {3U, 4U})
    if (!accumulate) std::ranges::fill(all[operand].elements, 0);
  vectors.for_each([&](std::size_t vector, std::size_t, std::size_t place) {
    if (vectors.is_value(place)) return;
    const std::span<Residue> sums = all[vectors.is_key(place) ? 4 : 3].elements;
    const std::span<const Residue> x = vectors.at(qkv, vector), grad = vectors.at(y_grad, vector);
    for (std::size_t i = 0; i < x.size(); ++i)
      sums[i] =
          add(sums[i], multiply(grad[i], multiply(x[i], rstd.elements[vectors.in_rstd(vector)])));
  });
}

// --- a product of two halves

void Gated::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &x = all[0], &y = all[1];
  const auto columns = static_cast<std::size_t>(x.shape.back());
  for (std::size_t i = 0; i < y.elements.size(); ++i) {
    const std::size_t gate = i / columns * 2 * columns + i % columns;
    y.elements[i] = multiply(residues.hash(function_name("silu"), {x.elements[gate]}),
                             x.elements[gate + columns]);
  }
}

void GatedGradient::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &x = all[0], &y_grad = all[1], &x_grad = all[2];
  const auto columns = static_cast<std::size_t>(x.shape.back());
  for (std::size_t i = 0; i < y_grad.elements.size(); ++i) {
    const std::size_t gate = i / columns * 2 * columns + i % columns;
    const Residue of_gate = x.elements[gate], other = x.elements[gate + columns];
    x_grad.elements[gate] = multiply(multiply(y_grad.elements[i], other),
                                     residues.hash(function_name("silu_slope"), {of_gate}));
    x_grad.elements[gate + columns] =
        multiply(y_grad.elements[i], residues.hash(function_name("silu"), {of_gate}));
  }
}

}  // namespace fourfold::op
