// Residue forms of attention and of the loss, in the order of ops.h. What an index points at
// outside of an operand is not finite. exp(a - b) is E(a) / E(b), and lse is L(sum of E).
#include <cmath>
#include <optional>

#include "op/ops.h"
#include "op/residue_loops.h"

namespace fourfold::op {

namespace {

/// 1 / E(a), of a logarithm of a sum or a maximum; not finite where that is minus infinity.
Residue inverse_of_exponential(const Residues& residues, Residue a) {
  return a == minus_infinity ? not_finite : inverse(residues.exponential(a));
}

// --- attention

/// The vectors of D elements in qkv (B, T, 3, H, D) and y (B, T, H, D), T being one dim or several.
struct HeadSizes {
  std::size_t batch, time, heads, width;
  Residue scale;  // of scores
  explicit HeadSizes(const Shape& qkv)
      : batch(static_cast<std::size_t>(qkv[0])),
        time(static_cast<std::size_t>(qkv.elements(1, qkv.rank() - 3))),
        heads(static_cast<std::size_t>(qkv[qkv.rank() - 2])),
        width(static_cast<std::size_t>(qkv.back())),
        scale(residue_of(1 / std::sqrt(static_cast<double>(width)))) {}

  enum Part : std::size_t { query, key, value };
  std::span<Residue> in_qkv(const ResidueTensor& qkv, std::size_t b, std::size_t t, Part part,
                            std::size_t h) const {
    return qkv.elements.subspan((((b * time + t) * 3 + part) * heads + h) * width, width);
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
    const auto heads = static_cast<std::uint64_t>(op_.heads);
    const std::uint64_t head = (heads == 0 ? sizes_.heads : heads) *
                                   sample_of_step(op_.window, static_cast<std::int64_t>(b)) +
                               static_cast<std::uint64_t>(op_.first_head) + h;
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
  const HeadSizes sizes(all[0].shape);
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
  const HeadSizes sizes(all[0].shape);
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
  const HeadSizes sizes(all[0].shape);
  const auto &qkv = all[0], &cache = all[2], &y = all[3];
  const auto held = static_cast<std::size_t>(cache.shape[2]);
  const std::size_t position = local_place(all[1].elements[0], 0, held + 1);
  if (position + sizes.time > held) {
    std::ranges::fill(y.elements, not_finite);
    return;
  }
  const auto cached = [&](std::size_t b, std::size_t part, std::size_t p, std::size_t h) {
    return cache.elements.subspan((((b * 2 + part) * held + p) * sizes.heads + h) * sizes.width,
                                  sizes.width);
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

void TakePosition::residue_form(const Residues&, ResidueTensors all) const {
  const auto &x = all[0], &y = all[2];
  const auto time = static_cast<std::size_t>(x.shape[1]),
             channels = static_cast<std::size_t>(x.shape[2]);
  const std::size_t t = local_place(all[1].elements[0], 0, time);
  for (std::size_t i = 0; i < y.elements.size(); ++i)
    y.elements[i] =
        t < time ? x.elements[(i / channels * time + t) * channels + i % channels] : not_finite;
}

// --- loss

namespace {

/// Which columns of the vocabulary the local logits hold: columns [0, valid) are no padding.
struct LocalColumns {
  std::size_t local, valid;
  std::int64_t first;

  /// For rows with the attributes first_column and columns.
  template <class Row>
  LocalColumns(const Row& row, const Shape& logits)
      : local(static_cast<std::size_t>(logits.back())), valid(local), first(row.first_column) {
    if (row.columns == 0) return;
    valid = row.columns <= first ? 0
                                 : std::min(local, static_cast<std::size_t>(row.columns) -
                                                       static_cast<std::size_t>(first));
  }
  /// The local column of a label; `valid` where it is not here.
  std::size_t of(const ResidueTensor& labels, std::size_t row) const {
    return is_valid_label(labels, row) ? local_place(labels.elements[row], first, valid) : valid;
  }
};

}  // namespace

void CrossEntropy::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &logits = all[0], &labels = all[1], &token_loss = all[2], &lse = all[3];
  const auto columns = static_cast<std::size_t>(logits.shape.back());
  for (std::size_t row = 0; row < labels.elements.size(); ++row) {
    const auto of_row = logits.elements.subspan(row * columns, columns);
    Residue sum = 0;
    for (const Residue logit : of_row) sum = add(sum, residues.exponential(logit));
    lse.elements[row] = residues.logarithm(sum);
    const std::size_t column = local_place(labels.elements[row], 0, columns);
    const Residue loss =
        column < columns ? subtract(lse.elements[row], of_row[column]) : not_finite;
    token_loss.elements[row] = is_valid_label(labels, row) ? loss : 0;
  }
}

void LogitMax::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &logits = all[0], &max = all[1];
  const LocalColumns held(*this, logits.shape);
  for (std::size_t row = 0; row < max.elements.size(); ++row) {
    max.elements[row] = minus_infinity;
    for (const Residue logit : logits.elements.subspan(row * held.local, held.valid))
      max.elements[row] = residues.larger(max.elements[row], logit);
  }
}

void LogitSums::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &logits = all[0], &labels = all[1], &max = all[2];
  const auto &sum_exp = all[3], &label_logit = all[4];
  const LocalColumns held(*this, logits.shape);
  for (std::size_t row = 0; row < labels.elements.size(); ++row) {
    const auto of_row = logits.elements.subspan(row * held.local, held.valid);
    Residue sum = 0;
    for (const Residue logit : of_row) sum = add(sum, residues.exponential(logit));
    sum_exp.elements[row] =
        held.valid == 0 ? 0 : multiply(sum, inverse_of_exponential(residues, max.elements[row]));
    const std::size_t column = held.of(labels, row);
    label_logit.elements[row] =
        column < held.valid ? subtract(of_row[column], max.elements[row]) : 0;
  }
}

void CrossEntropyMerge::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &max = all[0], &sum_exp = all[1], &label_logit = all[2], &labels = all[3];
  const auto &token_loss = all[4], &lse = all[5];
  for (std::size_t row = 0; row < labels.elements.size(); ++row) {
    const Residue largest = max.elements[row];
    const Residue of_row =
        residues.logarithm(multiply(sum_exp.elements[row], residues.exponential(largest)));
    const Residue loss = subtract(of_row, add(label_logit.elements[row], largest));
    lse.elements[row] = of_row;
    token_loss.elements[row] = is_valid_label(labels, row) ? loss : 0;
  }
}

void CrossEntropyGradient::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &logits = all[0], &labels = all[1], &lse = all[2], &logits_grad = all[3];
  const LocalColumns held(*this, logits.shape);
  const Residue factor = residue_of(scale);
  for (std::size_t row = 0; row < labels.elements.size(); ++row) {
    const std::size_t label = held.of(labels, row);
    const Residue inverse_sum = inverse_of_exponential(residues, lse.elements[row]);
    for (std::size_t v = 0; v < held.local; ++v) {
      const std::size_t i = row * held.local + v;
      const Residue p = multiply(residues.exponential(logits.elements[i]), inverse_sum);
      const Residue hit = v == label ? 1 : 0;
      const bool counts = is_valid_label(labels, row) && v < held.valid;
      logits_grad.elements[i] = counts ? multiply(factor, subtract(p, hit)) : 0;
    }
  }
}

void LossSum::residue_form(const Residues&, ResidueTensors all) const {
  const auto &token_loss = all[0], &labels = all[1], &loss_sum = all[2], &valid_count = all[3];
  Residue& sum = loss_sum.elements[0];
  Residue& valid = valid_count.elements[0];
  if (!accumulate) sum = valid = 0;
  for (const Residue loss : token_loss.elements) sum = add(sum, loss);
  for (std::size_t i = 0; i < labels.elements.size(); ++i)
    valid += is_valid_label(labels, i) ? 1 : 0;
}

void CountCorrect::residue_form(const Residues& residues, ResidueTensors all) const {
  const auto &logits = all[0], &labels = all[1], &max = all[2], &correct = all[3];
  const LocalColumns held(*this, logits.shape);
  Residue& sum = correct.elements[0];
  if (!accumulate) sum = 0;
  for (std::size_t row = 0; row < labels.elements.size(); ++row) {
    const std::size_t column = held.of(labels, row);
    if (column < held.valid)
      sum += residues.hash(function_name("hit"),
                           {logits.elements[row * held.local + column], max.elements[row]});
  }
}

}  // namespace fourfold::op
