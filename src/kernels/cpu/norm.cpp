// Layer norm and its gradients on CPU. R rows, C channels, X the type of x. Two passes for the
// variance, a row stays in the cache.
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/norm_row.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/norm_operands.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

struct NormSizes {
  std::int64_t rows, channels;
};
NormSizes norm_sizes(const Shape& x) {
  return {x.elements(0, x.rank() - 1), x.back()};
}

/// bias_C may be null, and so may mean_R, here and below, of a norm that is not centred.
template <class X, class T>
void layer_norm(const X* x_RC, const T* gain_C, const T* bias_C, NormSizes sizes, double epsilon,
                int threads, T* y_RC, Sum<T>* mean_R, Sum<T>* rstd_R) {
  const std::int64_t channels = sizes.channels;
  for_ranges(sizes.rows, team_size(threads, sizes.rows * channels), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) {
                 const X* x = x_RC + row * channels;
                 T* y = y_RC + row * channels;
                 const auto [mean, rstd] =
                     mean_R == nullptr ? root_mean_square_row(x, gain_C, channels, epsilon, y)
                                       : layer_norm_row(x, gain_C, bias_C, channels, epsilon, y);
                 if (mean_R != nullptr) mean_R[row] = mean;
                 rstd_R[row] = rstd;
               }
             });
}

template <class X, class T>
void layer_norm_gradient(const X* x_RC, const T* gain_C, const Sum<T>* mean_R, const Sum<T>* rstd_R,
                         const T* y_grad_RC, NormSizes sizes, int threads, X* x_grad_RC) {
  const std::int64_t channels = sizes.channels;
  for_ranges(sizes.rows, team_size(threads, sizes.rows * channels), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) {
                 const X* x = x_RC + row * channels;
                 const T* y_grad = y_grad_RC + row * channels;
                 X* x_grad = x_grad_RC + row * channels;
                 if (mean_R == nullptr)
                   root_mean_square_gradient_row(x, gain_C, rstd_R[row], y_grad, channels, x_grad);
                 else
                   layer_norm_gradient_row(x, gain_C, {mean_R[row], rstd_R[row]}, y_grad, channels,
                                           x_grad);
               }
             });
}

}  // namespace

Run prepare_row(const op::LayerNorm& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_wide(op.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [op, sizes, at = NormOperands(op, 1), threads = problem.threads](Tensors operands,
                                                                            Workspace) {
      layer_norm(operands[0].as<X>(), operands[at.gain].as<T>(),
                 optional_operand<T>(operands, at.bias), sizes, op.epsilon, threads,
                 operands[at.y].as<T>(), optional_operand<Sum<T>>(operands, at.mean),
                 operands[at.rstd].as<Sum<T>>());
    };
  });
}

Run prepare_row(const op::LayerNormGradient& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_wide(op.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [sizes, at = NormGradientOperands(op.centred, 2), threads = problem.threads](
               Tensors operands, Workspace) {
      layer_norm_gradient(operands[0].as<X>(), operands[1].as<T>(),
                          optional_operand<Sum<T>>(operands, at.mean),
                          operands[at.rstd].as<Sum<T>>(), operands[at.y_grad].as<T>(), sizes,
                          threads, operands[at.next].as<X>());
    };
  });
}

Run prepare_row(const op::LayerNormWeightGradient& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_wide(op.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [op, sizes, at = NormGradientOperands(op.centred, 1), threads = problem.threads](
               Tensors operands, Workspace) {
      const X* x = operands[0].as<X>();
      const Sum<T>* mean = optional_operand<Sum<T>>(operands, at.mean);
      const Sum<T>* rstd = operands[at.rstd].as<Sum<T>>();
      const T* y_grad = operands[at.y_grad].as<T>();
      const auto gain_term = [=, channels = sizes.channels](std::int64_t row, std::int64_t c) {
        return summed(y_grad[row * channels + c]) *
               ((summed(x[row * channels + c]) - mean[row]) * rstd[row]);
      };
      const auto squared_term = [=, channels = sizes.channels](std::int64_t row, std::int64_t c) {
        return summed(y_grad[row * channels + c]) * (summed(x[row * channels + c]) * rstd[row]);
      };
      const auto bias_term = [=, channels = sizes.channels](std::int64_t row, std::int64_t c) {
        return summed(y_grad[row * channels + c]);
      };
      const auto sum = [&](const auto& term, std::size_t to) {
        sum_columns<Sum<T>>(sizes.rows, sizes.channels, op.accumulate, threads, term,
                            operands[to].as<Sum<T>>());
      };
      if (op.centred)
        sum(gain_term, at.next);
      else
        sum(squared_term, at.next);
      if (op.bias) sum(bias_term, at.next + 1);
    };
  });
}

}  // namespace fourfold::kernels::cpu
