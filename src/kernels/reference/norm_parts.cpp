// Reference layer norm in parts; op::LayerNormMoments ... op::LayerNormGradientApply say what
// they compute. R rows, C local channels, P parts, X the type of x.
#include <cmath>

#include "kernels/norm_operands.h"
#include "kernels/reference/norm_sizes.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

/// What the sum of distances from the computed mean leaves of it corrects both moments: the mean is
/// then right to its last bit whatever the offset, and the squares to second order.
template <class T>
void moments(const T* x_RC, NormSizes sizes, std::int64_t parts, Sum<T>* moments_PR2) {
  const std::int64_t width = sizes.channels / parts;
  const auto count = static_cast<Sum<T>>(width);
  for (std::int64_t part = 0; part < parts; ++part)
    for (std::int64_t row = 0; row < sizes.rows; ++row) {
      const T* x = x_RC + row * sizes.channels + part * width;
      Sum<T> sum = 0, distances = 0, squares = 0;
      for (std::int64_t c = 0; c < width; ++c) sum += static_cast<Sum<T>>(x[c]);
      const Sum<T> mean = sum / count;
      for (std::int64_t c = 0; c < width; ++c) {
        const Sum<T> centred = static_cast<Sum<T>>(x[c]) - mean;
        distances += centred;
        squares += centred * centred;
      }
      const Sum<T> corrected = squares - distances * distances / count;
      Sum<T>* out = moments_PR2 + (part * sizes.rows + row) * 2;
      out[0] = mean + distances / count;
      out[1] = corrected < 0 ? 0 : corrected;  // a NaN stays
    }
}

/// The sum of the squares of each part, for a norm that is not centred.
template <class T>
void squares_of_parts(const T* x_RC, NormSizes sizes, std::int64_t parts, Sum<T>* squares_PR) {
  const std::int64_t width = sizes.channels / parts;
  for (std::int64_t part = 0; part < parts; ++part)
    for (std::int64_t row = 0; row < sizes.rows; ++row) {
      const T* x = x_RC + row * sizes.channels + part * width;
      Sum<T> squares = 0;
      for (std::int64_t c = 0; c < width; ++c)
        squares += static_cast<Sum<T>>(x[c]) * static_cast<Sum<T>>(x[c]);
      squares_PR[part * sizes.rows + row] = squares;
    }
}

template <class S>
struct Statistics {
  S mean, rstd;
};

/// Parts of equal size n: joining the (k+1)-th moves the mean by delta / (k+1) and adds delta^2 n k
/// / (k+1) to the squares. Of a norm that is not centred, squares add up.
template <class S>
Statistics<S> merge(const S* moments_PR2, std::int64_t parts, std::int64_t rows, std::int64_t row,
                    const op::LayerNormApply& op) {
  const auto part_width = static_cast<S>(op.width / parts);
  S mean = 0, squares = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    if (!op.centred) {
      squares += moments_PR2[part * rows + row];
      continue;
    }
    const S* next = moments_PR2 + (part * rows + row) * 2;
    const auto before = static_cast<S>(part);
    const S delta = next[0] - mean;
    mean += delta / (before + 1);
    squares += next[1] + delta * delta * (part_width * before / (before + 1));
  }
  return {mean, 1 / std::sqrt(squares / static_cast<S>(op.width) + static_cast<S>(op.epsilon))};
}

/// bias_C and mean_R may be null.
template <class X, class T>
void apply(const X* x_RC, const Sum<T>* moments_PR2, std::int64_t parts, const T* gain_C,
           const T* bias_C, NormSizes sizes, const op::LayerNormApply& op, T* y_RC, Sum<T>* mean_R,
           Sum<T>* rstd_R) {
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    const auto [mean, rstd] = merge(moments_PR2, parts, sizes.rows, row, op);
    for (std::int64_t c = 0; c < sizes.channels; ++c) {
      const std::int64_t i = row * sizes.channels + c;
      const Sum<T> normal = (static_cast<Sum<T>>(x_RC[i]) - mean) * rstd;
      const Sum<T> bias = bias_C == nullptr ? 0 : static_cast<Sum<T>>(bias_C[c]);
      y_RC[i] = static_cast<T>(normal * static_cast<Sum<T>>(gain_C[c]) + bias);
    }
    if (mean_R != nullptr) mean_R[row] = mean;
    rstd_R[row] = rstd;
  }
}

/// What both gradient ops read. With n = (x - mean) rstd and d = y_grad gain:
///   x_grad = rstd (d - average(d) - n average(d n)),
/// without mean and average(d) where the norm is not centred.
template <class X, class T>
struct Gradient {
  const X* x_RC;
  const T *gain_C, *y_grad_RC;
  const Sum<T>*mean_R, *rstd_R;  // the mean may be null
  std::int64_t channels;

  Gradient(Tensors operands, const NormGradientOperands& at, std::int64_t local_channels)
      : x_RC(operands[0].as<X>()),
        gain_C(operands[1].as<T>()),
        y_grad_RC(operands[at.y_grad].as<T>()),
        mean_R(optional_operand<Sum<T>>(operands, at.mean)),
        rstd_R(operands[at.rstd].as<Sum<T>>()),
        channels(local_channels) {}
  bool centred() const { return mean_R != nullptr; }
  Sum<T> normal(std::int64_t row, std::int64_t c) const {
    const Sum<T> mean = centred() ? mean_R[row] : 0;
    return (static_cast<Sum<T>>(x_RC[row * channels + c]) - mean) * rstd_R[row];
  }
  Sum<T> scaled(std::int64_t row, std::int64_t c) const {
    return static_cast<Sum<T>>(y_grad_RC[row * channels + c]) * static_cast<Sum<T>>(gain_C[c]);
  }
};

/// The sums over the local channels of d, where the norm is centred, and of d n, of each row.
template <class X, class T>
void gradient_sums(const Gradient<X, T>& gradient, NormSizes sizes, Sum<T>* sums) {
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    Sum<T> sum = 0, sum_normal = 0;
    for (std::int64_t c = 0; c < sizes.channels; ++c) {
      sum += gradient.scaled(row, c);
      sum_normal += gradient.scaled(row, c) * gradient.normal(row, c);
    }
    if (gradient.centred()) *sums++ = sum;
    *sums++ = sum_normal;
  }
}

template <class X, class T>
void gradient_apply(const Gradient<X, T>& gradient, NormSizes sizes, std::int64_t all_channels,
                    const Sum<T>* sums, X* x_grad_RC) {
  const auto width = static_cast<Sum<T>>(all_channels);
  for (std::int64_t row = 0; row < sizes.rows; ++row) {
    const Sum<T> average = gradient.centred() ? *sums++ / width : 0;
    const Sum<T> average_normal = *sums++ / width;
    for (std::int64_t c = 0; c < sizes.channels; ++c)
      x_grad_RC[row * sizes.channels + c] =
          static_cast<X>(gradient.rstd_R[row] * (gradient.scaled(row, c) - average -
                                                 gradient.normal(row, c) * average_normal));
  }
}

}  // namespace

Run prepare_row(const op::LayerNormMoments& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_storage(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Run {
    return [op, sizes](Tensors operands, Workspace) {
      const auto compute = op.centred ? moments<T> : squares_of_parts<T>;
      compute(operands[0].as<T>(), sizes, op.parts, operands[1].as<Sum<T>>());
    };
  });
}

Run prepare_row(const op::LayerNormApply& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return for_output<T>(op.wide, [&]<class X>(As<X>) -> Run {
      return [op, sizes, parts = problem.shapes[1][0], at = NormOperands(op, 2)](Tensors operands,
                                                                                 Workspace) {
        apply<X, T>(operands[0].as<X>(), operands[1].as<Sum<T>>(), parts, operands[at.gain].as<T>(),
                    optional_operand<T>(operands, at.bias), sizes, op, operands[at.y].as<T>(),
                    optional_operand<Sum<T>>(operands, at.mean), operands[at.rstd].as<Sum<T>>());
      };
    });
  });
}

Run prepare_row(const op::LayerNormGradientSums& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return for_output<T>(op.wide, [&]<class X>(As<X>) -> Run {
      return [sizes, at = NormGradientOperands(op.centred, 2)](Tensors operands, Workspace) {
        gradient_sums(Gradient<X, T>(operands, at, sizes.channels), sizes,
                      operands[at.next].as<Sum<T>>());
      };
    });
  });
}

Run prepare_row(const op::LayerNormGradientApply& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return for_output<T>(op.wide, [&]<class X>(As<X>) -> Run {
      return [sizes, op, at = NormGradientOperands(op.centred, 2)](Tensors operands, Workspace) {
        gradient_apply(Gradient<X, T>(operands, at, sizes.channels), sizes, op.width,
                       operands[at.next].as<Sum<T>>(), operands[at.next + 1].as<X>());
      };
    });
  });
}

}  // namespace fourfold::kernels::reference
