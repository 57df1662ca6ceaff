// Reference attention, its gradient and its continuation; op::Attention ...
// op::AttentionCached say what they compute. B batch, T time, H heads, D head width, P positions of
// the cache.
//
// Scratch is allocated when the kernel is prepared: T or T D sums, so that a call does not
// allocate.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/document_starts.h"
#include "kernels/dropout_mask.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

/// Offsets into qkv and y (B,T,H,D).
struct AttentionSizes : QkvSizes {
  using QkvSizes::QkvSizes;
  /// part 0: query, 1: key, 2: value; those of a group are the same for each of its heads.
  std::int64_t qkv(std::int64_t sample, std::int64_t t, std::int64_t part,
                   std::int64_t head) const {
    return (sample * time + t) * qkv_row() + in_token(part, head);
  }
  std::int64_t y(std::int64_t sample, std::int64_t t, std::int64_t head) const {
    return ((sample * time + t) * heads + head) * width;
  }
  std::int64_t lse(std::int64_t sample, std::int64_t head, std::int64_t t) const {
    return (sample * heads + head) * time + t;
  }
};

template <class T>
Sum<T> dot(const T* a, const T* b, std::int64_t count) {
  Sum<T> sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<Sum<T>>(a[i]) * static_cast<Sum<T>>(b[i]);
  return sum;
}

template <class T>
Sum<T> score_scale(std::int64_t width) {
  return static_cast<Sum<T>>(1 / std::sqrt(static_cast<double>(width)));
}

/// The keys that a query sees: [begin, end).
struct Keys {
  std::int64_t begin, end;
};
template <class AttentionOp>
Keys keys_of(const AttentionOp& op, const DocumentStarts& documents, const AttentionSizes& sizes,
             std::int64_t sample, std::int64_t t) {
  return {documents.first_key(sample, t), op.causal ? t + 1 : sizes.time};
}

/// Turns scores into probabilities; returns log sum exp.
template <class S>
S softmax(std::vector<S>& scores, const Keys& keys) {
  S largest = -std::numeric_limits<S>::infinity();
  for (std::int64_t s = keys.begin; s < keys.end; ++s)
    largest = std::max(largest, scores[static_cast<std::size_t>(s)]);
  S sum = 0;
  for (std::int64_t s = keys.begin; s < keys.end; ++s) {
    S& score = scores[static_cast<std::size_t>(s)];
    score = std::exp(score - largest);
    sum += score;
  }
  for (std::int64_t s = keys.begin; s < keys.end; ++s) scores[static_cast<std::size_t>(s)] /= sum;
  return largest + std::log(sum);
}

/// y[d] = sum over the keys of weights[s] value(s)[d].
template <class T, class Value>
void weighted_sum(const std::vector<Sum<T>>& weights, const Keys& keys, std::int64_t width,
                  Value value, T* y) {
  for (std::int64_t d = 0; d < width; ++d) {
    Sum<T> sum = 0;
    for (std::int64_t s = keys.begin; s < keys.end; ++s)
      sum += weights[static_cast<std::size_t>(s)] * static_cast<Sum<T>>(value(s)[d]);
    y[d] = static_cast<T>(sum);
  }
}

/// The factor of each probability of a row under dropout: 1 / (1 - rate), or 0 where dropped; 1
/// without dropout.
struct Keep {
  std::optional<DropoutMask> mask;
  double rate = 0;
  double operator()(std::uint64_t row, std::int64_t s) const {
    if (!mask) return 1;
    return mask->dropped(row + static_cast<std::uint64_t>(s)) ? 0 : 1 / (1 - rate);
  }
};

/// Seed and step follow the operand before them where the op drops out.
template <class AttentionOp>
Keep keep_of(const AttentionOp& op, Tensors operands, std::size_t seed) {
  if (op.rate == 0) return {};
  return {DropoutMask(op.stream, op.rate, *operands[seed].as<std::uint64_t>(),
                      *operands[seed + 1].as<std::int64_t>()),
          op.rate};
}

template <class T>
void attention(const T* qkv, const AttentionSizes& sizes, const op::Attention& op,
               const AttentionElements& elements, const DocumentStarts& documents, const Keep& keep,
               std::vector<Sum<T>>& scratch_T, T* y, Sum<T>* lse) {
  const Sum<T> scale = score_scale<T>(sizes.width);
  for (std::int64_t b = 0; b < sizes.batch; ++b)
    for (std::int64_t h = 0; h < sizes.heads; ++h)
      for (std::int64_t t = 0; t < sizes.time; ++t) {
        const Keys keys = keys_of(op, documents, sizes, b, t);
        for (std::int64_t s = keys.begin; s < keys.end; ++s)
          scratch_T[static_cast<std::size_t>(s)] =
              scale * dot<T>(qkv + sizes.qkv(b, t, 0, h), qkv + sizes.qkv(b, s, 1, h), sizes.width);
        lse[sizes.lse(b, h, t)] = softmax(scratch_T, keys);
        const std::uint64_t row = elements.row(global_sample(op.window, b), h, t);
        for (std::int64_t s = keys.begin; s < keys.end; ++s)
          scratch_T[static_cast<std::size_t>(s)] *= static_cast<Sum<T>>(keep(row, s));
        const auto value = [&](std::int64_t s) { return qkv + sizes.qkv(b, s, 2, h); };
        weighted_sum<T>(scratch_T, keys, sizes.width, value, y + sizes.y(b, t, h));
      }
}

/// Sums of the gradients of one head's queries, keys and values, (3, T, D); those of keys and
/// values go on where heads before it have the same ones.
template <class T>
void attention_gradient_of_head(const T* qkv, const T* y, const Sum<T>* lse, const T* y_grad,
                                const AttentionSizes& sizes, std::int64_t b, std::int64_t h,
                                const op::AttentionGradient& op, const AttentionElements& elements,
                                const DocumentStarts& documents, const Keep& keep,
                                std::vector<Sum<T>>& sums) {
  const Sum<T> scale = score_scale<T>(sizes.width);
  const auto of_queries = sums.begin() + sizes.time * sizes.width;
  std::fill(sums.begin(), h % sizes.of_group == 0 ? sums.end() : of_queries, Sum<T>{0});
  const auto sum_at = [&](std::int64_t part, std::int64_t t) {
    return sums.data() + (part * sizes.time + t) * sizes.width;
  };
  for (std::int64_t t = 0; t < sizes.time; ++t) {
    const T* query = qkv + sizes.qkv(b, t, 0, h);
    const T* grad = y_grad + sizes.y(b, t, h);
    // Sum over s of p times its gradient, since y = sum over s of p v.
    const Sum<T> mean_gradient = dot<T>(grad, y + sizes.y(b, t, h), sizes.width);
    const std::uint64_t row = elements.row(global_sample(op.window, b), h, t);
    const Keys keys = keys_of(op, documents, sizes, b, t);
    for (std::int64_t s = keys.begin; s < keys.end; ++s) {
      const T* key = qkv + sizes.qkv(b, s, 1, h);
      const T* value = qkv + sizes.qkv(b, s, 2, h);
      const Sum<T> p = std::exp(scale * dot<T>(query, key, sizes.width) - lse[sizes.lse(b, h, t)]);
      const auto factor = static_cast<Sum<T>>(keep(row, s));
      const Sum<T> p_gradient = factor * dot<T>(grad, value, sizes.width);
      const Sum<T> score_gradient = scale * p * (p_gradient - mean_gradient);
      for (std::int64_t d = 0; d < sizes.width; ++d) {
        sum_at(0, t)[d] += score_gradient * static_cast<Sum<T>>(key[d]);
        sum_at(1, s)[d] += score_gradient * static_cast<Sum<T>>(query[d]);
        sum_at(2, s)[d] += p * factor * static_cast<Sum<T>>(grad[d]);
      }
    }
  }
}

template <class T>
void attention_cached(const T* qkv, const AttentionSizes& sizes, std::int64_t position,
                      std::int64_t positions, std::vector<Sum<T>>& scratch_P, T* cache, T* y) {
  const Sum<T> scale = score_scale<T>(sizes.width);
  // part 0: key, 1: value.
  const auto cached = [&](std::int64_t b, std::int64_t part, std::int64_t p, std::int64_t h) {
    return cache +
           (((b * 2 + part) * positions + p) * sizes.groups + sizes.group_of(h)) * sizes.width;
  };
  for (std::int64_t b = 0; b < sizes.batch; ++b)
    for (std::int64_t h = 0; h < sizes.heads; ++h)
      for (std::int64_t t = 0; t < sizes.time; ++t) {
        for (std::int64_t part = 0; part < 2; ++part)
          std::copy_n(qkv + sizes.qkv(b, t, part + 1, h), sizes.width,
                      cached(b, part, position + t, h));
        const Keys keys{0, position + t + 1};
        for (std::int64_t p = 0; p < keys.end; ++p)
          scratch_P[static_cast<std::size_t>(p)] =
              scale * dot<T>(qkv + sizes.qkv(b, t, 0, h), cached(b, 0, p, h), sizes.width);
        softmax(scratch_P, keys);
        const auto value = [&](std::int64_t p) { return cached(b, 1, p, h); };
        weighted_sum<T>(scratch_P, keys, sizes.width, value, y + sizes.y(b, t, h));
      }
}

}  // namespace

Run prepare_row(const op::Attention& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0], op.grouped);
  const AttentionElements elements = attention_elements(op, problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    std::vector<Sum<T>> scratch(static_cast<std::size_t>(sizes.time));
    return [op, sizes, elements, scratch](Tensors operands, Workspace) mutable {
      const AttentionOperands at(op, 1);
      attention<T>(operands[0].as<T>(), sizes, op, elements,
                   document_starts(op, operands, at.starts), keep_of(op, operands, at.seed),
                   scratch, operands[at.outputs].as<T>(), operands[at.outputs + 1].as<Sum<T>>());
    };
  });
}

Run prepare_row(const op::AttentionGradient& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0], op.grouped);
  const AttentionElements elements = attention_elements(op, problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    std::vector<Sum<T>> sums(static_cast<std::size_t>(3 * sizes.time * sizes.width));
    return [op, sizes, elements, sums](Tensors operands, Workspace) mutable {
      const AttentionOperands at(op, 4);
      T* qkv_grad = operands[at.outputs].as<T>();
      for (std::int64_t b = 0; b < sizes.batch; ++b)
        for (std::int64_t h = 0; h < sizes.heads; ++h) {
          attention_gradient_of_head<T>(operands[0].as<T>(), operands[1].as<T>(),
                                        operands[2].as<Sum<T>>(), operands[3].as<T>(), sizes, b, h,
                                        op, elements, document_starts(op, operands, at.starts),
                                        keep_of(op, operands, at.seed), sums);
          for (std::int64_t part = 0; part < 3; ++part)
            for (std::int64_t t = 0; t < sizes.time; ++t)
              for (std::int64_t d = 0; d < sizes.width; ++d)
                qkv_grad[sizes.qkv(b, t, part, h) + d] = static_cast<T>(
                    sums[static_cast<std::size_t>((part * sizes.time + t) * sizes.width + d)]);
        }
    };
  });
}

Run prepare_row(const op::AttentionCached& op, const Problem& problem) {
  const AttentionSizes sizes(problem.shapes[0], op.grouped);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    std::vector<Sum<T>> scratch(static_cast<std::size_t>(op.positions));
    return [sizes, positions = op.positions, scratch](Tensors operands, Workspace) mutable {
      attention_cached<T>(operands[0].as<T>(), sizes, *operands[1].as<std::int32_t>(), positions,
                          scratch, operands[2].as<T>(), operands[3].as<T>());
    };
  });
}

}  // namespace fourfold::kernels::reference
