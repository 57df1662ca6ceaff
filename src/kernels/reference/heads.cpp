// Reference kernels of what stands before attention: op::Rotary, op::HeadNorm and its gradients say
// what they compute. D head width.
#include <algorithm>
#include <cmath>

#include "kernels/document_starts.h"
#include "kernels/reference/rows.h"
#include "kernels/rotary.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

/// y may be qkv.
template <class T>
void rotary(const T* qkv, const QkvVectors& sizes, const op::Rotary& op, std::int64_t first,
            const DocumentStarts& documents, T* y) {
  const auto pairs = static_cast<std::int64_t>(op.frequencies.size());
  for (std::int64_t token = 0; token < sizes.tokens(); ++token) {
    const std::int64_t sample = token / sizes.time, t = token % sizes.time;
    const std::int64_t position = first + t - documents.first_key(sample, t);
    for (std::int64_t vector = 0; vector < sizes.of_token(); ++vector) {
      const std::int64_t at = (token * sizes.of_token() + vector) * sizes.width;
      const std::int64_t turned = sizes.is_value(vector) ? 0 : pairs;
      for (std::int64_t i = 0; i < turned; ++i) {
        const Turn turn = turn_of(op, position, static_cast<std::size_t>(i));
        const auto cosine = static_cast<Sum<T>>(turn.cosine), sine = static_cast<Sum<T>>(turn.sine);
        const auto a = static_cast<Sum<T>>(qkv[at + i]),
                   b = static_cast<Sum<T>>(qkv[at + pairs + i]);
        y[at + i] = static_cast<T>(a * cosine - b * sine);
        y[at + pairs + i] = static_cast<T>(b * cosine + a * sine);
      }
      for (std::int64_t i = 2 * turned; i < sizes.width; ++i) y[at + i] = qkv[at + i];
    }
  }
}

template <class T>
void head_norm(const T* qkv, const T* q_gain_D, const T* k_gain_D, const QkvVectors& sizes,
               double epsilon, T* y, Sum<T>* rstd) {
  const std::int64_t width = sizes.width;
  for (std::int64_t vector = 0; vector < sizes.tokens() * sizes.of_token(); ++vector) {
    const T* x = qkv + vector * width;
    T* to = y + vector * width;
    if (sizes.is_value(vector)) {
      std::copy_n(x, width, to);
      continue;
    }
    const T* gain = sizes.is_key(vector) ? k_gain_D : q_gain_D;
    Sum<T> squares = 0;
    for (std::int64_t d = 0; d < width; ++d)
      squares += static_cast<Sum<T>>(x[d]) * static_cast<Sum<T>>(x[d]);
    const Sum<T> of_vector =
        1 / std::sqrt(squares / static_cast<Sum<T>>(width) + static_cast<Sum<T>>(epsilon));
    for (std::int64_t d = 0; d < width; ++d)
      to[d] = static_cast<T>(static_cast<Sum<T>>(x[d]) * of_vector * static_cast<Sum<T>>(gain[d]));
    rstd[sizes.in_rstd(vector)] = of_vector;
  }
}

/// With n = x rstd and d = y_grad gain:  x_grad = rstd (d - n average(d n)). qkv_grad may be
/// y_grad.
template <class T>
void head_norm_gradient(const T* qkv, const T* q_gain_D, const T* k_gain_D, const Sum<T>* rstd,
                        const T* y_grad, const QkvVectors& sizes, T* qkv_grad) {
  const std::int64_t width = sizes.width;
  for (std::int64_t vector = 0; vector < sizes.tokens() * sizes.of_token(); ++vector) {
    const T *x = qkv + vector * width, *grad = y_grad + vector * width;
    T* to = qkv_grad + vector * width;
    if (sizes.is_value(vector)) {
      for (std::int64_t d = 0; d < width; ++d) to[d] = grad[d];
      continue;
    }
    const T* gain = sizes.is_key(vector) ? k_gain_D : q_gain_D;
    const Sum<T> of_vector = rstd[sizes.in_rstd(vector)];
    const auto normal = [&](std::int64_t d) { return static_cast<Sum<T>>(x[d]) * of_vector; };
    const auto scaled = [&](std::int64_t d) {
      return static_cast<Sum<T>>(grad[d]) * static_cast<Sum<T>>(gain[d]);
    };
    Sum<T> sum = 0;
    for (std::int64_t d = 0; d < width; ++d) sum += scaled(d) * normal(d);
    const Sum<T> average = sum / static_cast<Sum<T>>(width);
    for (std::int64_t d = 0; d < width; ++d)
      to[d] = static_cast<T>(of_vector * (scaled(d) - normal(d) * average));
  }
}

template <class T>
void head_norm_weight_gradient(const T* qkv, const Sum<T>* rstd, const T* y_grad,
                               const QkvVectors& sizes, bool accumulate, Sum<T>* q_gain_grad_D,
                               Sum<T>* k_gain_grad_D) {
  const std::int64_t width = sizes.width;
  if (!accumulate) {
    std::fill_n(q_gain_grad_D, width, Sum<T>{0});
    std::fill_n(k_gain_grad_D, width, Sum<T>{0});
  }
  for (std::int64_t vector = 0; vector < sizes.tokens() * sizes.of_token(); ++vector) {
    if (sizes.is_value(vector)) continue;
    Sum<T>* sums = sizes.is_key(vector) ? k_gain_grad_D : q_gain_grad_D;
    for (std::int64_t d = 0; d < width; ++d)
      sums[d] += static_cast<Sum<T>>(y_grad[vector * width + d]) *
                 static_cast<Sum<T>>(qkv[vector * width + d]) * rstd[sizes.in_rstd(vector)];
  }
}

}  // namespace

Run prepare_row(const op::Rotary& op, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes](Tensors operands, Workspace) {
      const RotaryOperands at(op);
      rotary<T>(operands[0].as<T>(), sizes, op, at.first(op, operands),
                document_starts(op, operands, at.starts), operands[at.y].as<T>());
    };
  });
}

Run prepare_row(const op::HeadNorm& op, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes](Tensors operands, Workspace) {
      head_norm<T>(operands[0].as<T>(), operands[1].as<T>(), operands[2].as<T>(), sizes, op.epsilon,
                   operands[3].as<T>(), operands[4].as<Sum<T>>());
    };
  });
}

Run prepare_row(const op::HeadNormGradient&, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      head_norm_gradient<T>(operands[0].as<T>(), operands[1].as<T>(), operands[2].as<T>(),
                            operands[3].as<Sum<T>>(), operands[4].as<T>(), sizes,
                            operands[5].as<T>());
    };
  });
}

Run prepare_row(const op::HeadNormWeightGradient& op, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes](Tensors operands, Workspace) {
      head_norm_weight_gradient<T>(operands[0].as<T>(), operands[1].as<Sum<T>>(),
                                   operands[2].as<T>(), sizes, op.accumulate,
                                   operands[3].as<Sum<T>>(), operands[4].as<Sum<T>>());
    };
  });
}

}  // namespace fourfold::kernels::reference
