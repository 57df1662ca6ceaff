// Layer norm in parts on CPU: moments of blocks of channels, then what is done with the merged
// ones. R rows, C local channels, P parts, X the type of x.
#include <algorithm>
#include <cmath>

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

/// body(row) for all rows, threads sharing them.
template <class Body>
void for_rows(NormSizes sizes, int threads, Body body) {
  for_ranges(sizes.rows, team_size(threads, sizes.rows * sizes.channels), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t row = first; row < last; ++row) body(row);
             });
}

/// Mean and squares of one block, both corrected by what the sum of distances from the computed
/// mean leaves of it.
template <class X>
void block_moments(const X* x_C, std::int64_t width, Sum<X>* moments_2) {
  using S = Sum<X>;
  const auto count = static_cast<S>(width);
  S sum = 0, distances = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += summed(x_C[c]);
  const S mean = sum / count;
#pragma omp simd reduction(+ : distances, squares)
  for (std::int64_t c = 0; c < width; ++c) {
    const S centred = summed(x_C[c]) - mean;
    distances += centred;
    squares += centred * centred;
  }
  const S corrected = squares - distances * distances / count;
  moments_2[0] = mean + distances / count;
  moments_2[1] = corrected < 0 ? S{0} : corrected;  // a NaN stays
}

/// Parts of equal size n: joining the (k+1)-th moves the mean by delta / (k+1) and adds delta^2 n k
/// / (k+1) to the squares. In index order, so that every rank gets the same bits. Of a norm that is
/// not centred, squares add up.
template <class S>
RowStatistics<S> merge(const S* moments_PR2, std::int64_t parts, std::int64_t rows,
                       std::int64_t row, const op::LayerNormApply& op) {
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

/// With n = (x - mean) rstd and d = y_grad gain: the sums of d and of d n. A function, so that one
/// thread and several run the same code.
template <class X, class T>
void gradient_sums(const X* x_C, const T* gain_C, RowStatistics<Sum<T>> row, const T* y_grad_C,
                   std::int64_t channels, Sum<T>* sums_2) {
  const auto [mean, rstd] = row;
  Sum<T> sum = 0, sum_normal = 0;
#pragma omp simd reduction(+ : sum, sum_normal)
  for (std::int64_t c = 0; c < channels; ++c) {
    const Sum<T> scaled = summed(y_grad_C[c]) * summed(gain_C[c]);
    sum += scaled;
    sum_normal += scaled * ((summed(x_C[c]) - mean) * rstd);
  }
  sums_2[0] = sum;
  sums_2[1] = sum_normal;
}

}  // namespace

Run prepare_row(const op::LayerNormMoments& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_storage(storage_of(op.wide, problem.dtype), [&]<class X>(As<X>) -> Run {
    return [parts = op.parts, centred = op.centred, sizes, threads = problem.threads](
               Tensors operands, Workspace) {
      const X* x_RC = operands[0].as<X>();
      Sum<X>* moments = operands[1].as<Sum<X>>();
      const std::int64_t width = sizes.channels / parts;
      for_rows(sizes, threads, [=](std::int64_t row) {
        for (std::int64_t part = 0; part < parts; ++part) {
          const X* x = x_RC + row * sizes.channels + part * width;
          const std::int64_t at = part * sizes.rows + row;
          if (centred)
            block_moments(x, width, moments + 2 * at);
          else
            moments[at] = sum_of_squares(x, width);
        }
      });
    };
  });
}

Run prepare_row(const op::LayerNormApply& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_wide(op.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [op, sizes, parts = problem.shapes[1][0], at = NormOperands(op, 2),
            threads = problem.threads](Tensors operands, Workspace) {
      const X* x_RC = operands[0].as<X>();
      const Sum<T>* moments_PR2 = operands[1].as<Sum<T>>();
      const T* gain_C = operands[at.gain].as<T>();
      const T* bias_C = optional_operand<T>(operands, at.bias);
      T* y_RC = operands[at.y].as<T>();
      Sum<T>* mean_R = optional_operand<Sum<T>>(operands, at.mean);
      Sum<T>* rstd_R = operands[at.rstd].as<Sum<T>>();
      for_rows(sizes, threads, [=](std::int64_t row) {
        const RowStatistics<Sum<T>> merged = merge(moments_PR2, parts, sizes.rows, row, op);
        normalise_row(x_RC + row * sizes.channels, merged, gain_C, bias_C, sizes.channels,
                      y_RC + row * sizes.channels);
        if (mean_R != nullptr) mean_R[row] = merged.mean;
        rstd_R[row] = merged.rstd;
      });
    };
  });
}

Run prepare_row(const op::LayerNormGradientSums& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_wide(op.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return [sizes, place = NormGradientOperands(op.centred, 2), threads = problem.threads](
               Tensors operands, Workspace) {
      using S = Sum<T>;
      const X* x_RC = operands[0].as<X>();
      const T* gain_C = operands[1].as<T>();
      const S* mean_R = optional_operand<S>(operands, place.mean);
      const S* rstd_R = operands[place.rstd].as<S>();
      const T* y_grad_RC = operands[place.y_grad].as<T>();
      S* sums = operands[place.next].as<S>();
      for_rows(sizes, threads, [=](std::int64_t row) {
        const std::int64_t at = row * sizes.channels;
        const S mean = mean_R == nullptr ? 0 : mean_R[row];
        S of_row[2];
        gradient_sums(x_RC + at, gain_C, {mean, rstd_R[row]}, y_grad_RC + at, sizes.channels,
                      of_row);
        if (mean_R == nullptr)
          sums[row] = of_row[1];
        else
          std::copy_n(of_row, 2, sums + 2 * row);
      });
    };
  });
}

Run prepare_row(const op::LayerNormGradientApply& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_wide(op.wide, problem.dtype, [&]<class T, class X>(As<T>, As<X>) -> Run {
    return
        [sizes, width = static_cast<Sum<T>>(op.width), place = NormGradientOperands(op.centred, 2),
         threads = problem.threads](Tensors operands, Workspace) {
          using S = Sum<T>;
          const X* x_RC = operands[0].as<X>();
          const T* gain_C = operands[1].as<T>();
          const S* mean_R = optional_operand<S>(operands, place.mean);
          const S* rstd_R = operands[place.rstd].as<S>();
          const T* y_grad_RC = operands[place.y_grad].as<T>();
          const S* sums = operands[place.next].as<S>();
          X* x_grad_RC = operands[place.next + 1].as<X>();
          for_rows(sizes, threads, [=](std::int64_t row) {
            const X* x = x_RC + row * sizes.channels;
            const T* y_grad = y_grad_RC + row * sizes.channels;
            X* x_grad = x_grad_RC + row * sizes.channels;
            const bool centred = mean_R != nullptr;
            const S mean = centred ? mean_R[row] : 0, rstd = rstd_R[row];
            const S average = centred ? sums[2 * row] / width : 0;
            const S average_normal = (centred ? sums[2 * row + 1] : sums[row]) / width;
#pragma omp simd
            for (std::int64_t c = 0; c < sizes.channels; ++c)
              store(x_grad[c], rstd * (summed(y_grad[c]) * summed(gain_C[c]) - average -
                                       (summed(x[c]) - mean) * rstd * average_normal));
          });
        };
  });
}

}  // namespace fourfold::kernels::cpu
