// Layer norm and its gradients on CPU. R rows, C channels, X the type of x. Two passes for the
// variance, a row stays in the cache.
#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/norm_row.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

struct NormSizes {
  std::int64_t rows, channels;
};
NormSizes norm_sizes(const Shape& x) {
  return {x.elements(0, x.rank() - 1), x.back()};
}

/// bias_C may be null.
template <class X, class T>
void layer_norm(const X* x_RC, const T* gain_C, const T* bias_C, NormSizes sizes, double epsilon,
                int threads, T* y_RC, Sum<T>* mean_R, Sum<T>* rstd_R) {
  const std::int64_t channels = sizes.channels;
  for_ranges(sizes.rows, team_size(threads, sizes.rows * channels), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) {
                 const auto [mean, rstd] = layer_norm_row(x_RC + row * channels, gain_C, bias_C,
                                                          channels, epsilon, y_RC + row * channels);
                 mean_R[row] = mean;
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
               for (std::int64_t row = first; row < last; ++row)
                 layer_norm_gradient_row(x_RC + row * channels, gain_C, {mean_R[row], rstd_R[row]},
                                         y_grad_RC + row * channels, channels,
                                         x_grad_RC + row * channels);
             });
}

}  // namespace

Run prepare_row(const op::LayerNorm& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_wide(op.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [op, sizes, threads = problem.threads](Tensors operands, Workspace) {
      const std::size_t y = op.bias ? 3 : 2;
      layer_norm(operands[0].as<X>(), operands[1].as<T>(), op.bias ? operands[2].as<T>() : nullptr,
                 sizes, op.epsilon, threads, operands[y].as<T>(), operands[y + 1].as<Sum<T>>(),
                 operands[y + 2].as<Sum<T>>());
    };
  });
}

Run prepare_row(const op::LayerNormGradient& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_wide(op.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      layer_norm_gradient(operands[0].as<X>(), operands[1].as<T>(), operands[2].as<Sum<T>>(),
                          operands[3].as<Sum<T>>(), operands[4].as<T>(), sizes, threads,
                          operands[5].as<X>());
    };
  });
}

Run prepare_row(const op::LayerNormWeightGradient& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_wide(op.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [op, sizes, threads = problem.threads](Tensors operands, Workspace) {
      const X* x = operands[0].as<X>();
      const Sum<T>* mean = operands[1].as<Sum<T>>();
      const Sum<T>* rstd = operands[2].as<Sum<T>>();
      const T* y_grad = operands[3].as<T>();
      const auto gain_term = [=, channels = sizes.channels](std::int64_t row, std::int64_t c) {
        return summed(y_grad[row * channels + c]) *
               ((summed(x[row * channels + c]) - mean[row]) * rstd[row]);
      };
      const auto bias_term = [=, channels = sizes.channels](std::int64_t row, std::int64_t c) {
        return summed(y_grad[row * channels + c]);
      };
      sum_columns<Sum<T>>(sizes.rows, sizes.channels, op.accumulate, threads, gain_term,
                          operands[4].as<Sum<T>>());
      if (op.bias)
        sum_columns<Sum<T>>(sizes.rows, sizes.channels, op.accumulate, threads, bias_term,
                            operands[5].as<Sum<T>>());
    };
  });
}

}  // namespace fourfold::kernels::cpu
