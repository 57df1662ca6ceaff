// Reference layer norm and its gradients; op::LayerNorm ... op::LayerNormWeightGradient say what
// they compute. R rows, C channels, X the type of x. Two-pass variance, so that a large common
// offset does no harm.
#include <cmath>

#include "kernels/norm_operands.h"
#include "kernels/reference/norm_sizes.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

/// bias_C may be null, and so may mean_R, of a norm that is not centred.
template <class X, class T>
void layer_norm(const X* x_RC, const T* gain_C, const T* bias_C, NormSizes sizes, double epsilon,
                T* y_RC, Sum<T>* mean_R, Sum<T>* rstd_R) {
  const auto channels = static_cast<Sum<T>>(sizes.channels);
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    const X* x = x_RC + row * sizes.channels;
    Sum<T> sum = 0, squares = 0;
    for (std::int64_t c = 0; c < sizes.channels; ++c) sum += static_cast<Sum<T>>(x[c]);
    const Sum<T> mean = mean_R == nullptr ? 0 : sum / channels;
    for (std::int64_t c = 0; c < sizes.channels; ++c) {
      const Sum<T> centred = static_cast<Sum<T>>(x[c]) - mean;
      squares += centred * centred;
    }
    const Sum<T> rstd = 1 / std::sqrt(squares / channels + static_cast<Sum<T>>(epsilon));
    for (std::int64_t c = 0; c < sizes.channels; ++c) {
      const Sum<T> normal = (static_cast<Sum<T>>(x[c]) - mean) * rstd;
      const Sum<T> bias = bias_C == nullptr ? 0 : static_cast<Sum<T>>(bias_C[c]);
      y_RC[row * sizes.channels + c] =
          static_cast<T>(normal * static_cast<Sum<T>>(gain_C[c]) + bias);
    }
    if (mean_R != nullptr) mean_R[row] = mean;
    rstd_R[row] = rstd;
  }
}

/// With n = (x - mean) rstd and d = y_grad gain:  x_grad = rstd (d - average(d) - n average(d n)).
/// A norm that is not centred has neither mean nor average(d); mean_R is then null.
template <class X, class T>
void layer_norm_gradient(const X* x_RC, const T* gain_C, const Sum<T>* mean_R, const Sum<T>* rstd_R,
                         const T* y_grad_RC, NormSizes sizes, X* x_grad_RC) {
  const auto channels = static_cast<Sum<T>>(sizes.channels);
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    const std::int64_t at = row * sizes.channels;
    const Sum<T> mean = mean_R == nullptr ? 0 : mean_R[row];
    const auto normal = [&](std::int64_t c) {
      return (static_cast<Sum<T>>(x_RC[at + c]) - mean) * rstd_R[row];
    };
    const auto scaled = [&](std::int64_t c) {
      return static_cast<Sum<T>>(y_grad_RC[at + c]) * static_cast<Sum<T>>(gain_C[c]);
    };
    Sum<T> sum = 0, sum_normal = 0;
    for (std::int64_t c = 0; c < sizes.channels; ++c) {
      sum += scaled(c);
      sum_normal += scaled(c) * normal(c);
    }
    if (mean_R == nullptr) sum = 0;
    for (std::int64_t c = 0; c < sizes.channels; ++c)
      x_grad_RC[at + c] = static_cast<X>(
          rstd_R[row] * (scaled(c) - sum / channels - normal(c) * (sum_normal / channels)));
  }
}

/// bias_grad_C may be null, and so may mean_R.
template <class X, class T>
void layer_norm_weight_gradient(const X* x_RC, const Sum<T>* mean_R, const Sum<T>* rstd_R,
                                const T* y_grad_RC, NormSizes sizes, bool accumulate,
                                Sum<T>* gain_grad_C, Sum<T>* bias_grad_C) {
  for (std::int64_t c = 0; c < sizes.channels; ++c) {
    Sum<T> gain_sum = accumulate ? gain_grad_C[c] : 0;
    Sum<T> bias_sum = accumulate && bias_grad_C != nullptr ? bias_grad_C[c] : 0;
    for (std::int64_t row = 0; row < sizes.rows; ++row) {
      const auto grad = static_cast<Sum<T>>(y_grad_RC[row * sizes.channels + c]);
      const auto x = static_cast<Sum<T>>(x_RC[row * sizes.channels + c]);
      gain_sum += grad * (x - (mean_R == nullptr ? 0 : mean_R[row])) * rstd_R[row];
      bias_sum += grad;
    }
    gain_grad_C[c] = gain_sum;
    if (bias_grad_C != nullptr) bias_grad_C[c] = bias_sum;
  }
}

}  // namespace

Run prepare_row(const op::LayerNorm& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return for_output<T>(op.wide, [&]<class X>(As<X>) -> Run {
      return [op, sizes, at = NormOperands(op, 1)](Tensors operands, Workspace) {
        layer_norm<X, T>(operands[0].as<X>(), operands[at.gain].as<T>(),
                         optional_operand<T>(operands, at.bias), sizes, op.epsilon,
                         operands[at.y].as<T>(), optional_operand<Sum<T>>(operands, at.mean),
                         operands[at.rstd].as<Sum<T>>());
      };
    });
  });
}

Run prepare_row(const op::LayerNormGradient& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return for_output<T>(op.wide, [&]<class X>(As<X>) -> Run {
      return [sizes, at = NormGradientOperands(op.centred, 2)](Tensors operands, Workspace) {
        layer_norm_gradient<X, T>(operands[0].as<X>(), operands[1].as<T>(),
                                  optional_operand<Sum<T>>(operands, at.mean),
                                  operands[at.rstd].as<Sum<T>>(), operands[at.y_grad].as<T>(),
                                  sizes, operands[at.next].as<X>());
      };
    });
  });
}

Run prepare_row(const op::LayerNormWeightGradient& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return for_output<T>(op.wide, [&]<class X>(As<X>) -> Run {
      return [op, sizes, at = NormGradientOperands(op.centred, 1)](Tensors operands, Workspace) {
        layer_norm_weight_gradient<X, T>(
            operands[0].as<X>(), optional_operand<Sum<T>>(operands, at.mean),
            operands[at.rstd].as<Sum<T>>(), operands[at.y_grad].as<T>(), sizes, op.accumulate,
            operands[at.next].as<Sum<T>>(), op.bias ? operands[at.next + 1].as<Sum<T>>() : nullptr);
      };
    });
  });
}

}  // namespace fourfold::kernels::reference
