// Layer norm in parts on CPU: moments of blocks of channels, then what is done with the merged
// ones. R rows, C local channels, P parts.
#include <cmath>

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
template <class T>
void block_moments(const T* x_C, std::int64_t width, T* moments_2) {
  const auto count = static_cast<T>(width);
  T sum = 0, distances = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < width; ++c) sum += x_C[c];
  const T mean = sum / count;
#pragma omp simd reduction(+ : distances, squares)
  for (std::int64_t c = 0; c < width; ++c) {
    const T centred = x_C[c] - mean;
    distances += centred;
    squares += centred * centred;
  }
  const T corrected = squares - distances * distances / count;
  moments_2[0] = mean + distances / count;
  moments_2[1] = corrected < 0 ? T{0} : corrected;  // a NaN stays
}

template <class T>
struct Statistics {
  T mean, rstd;
};

/// Parts of equal size n: joining the (k+1)-th moves the mean by delta / (k+1) and adds delta^2 n k
/// / (k+1) to the squares. In index order, so that every rank gets the same bits.
template <class T>
Statistics<T> merge(const T* moments_PR2, std::int64_t parts, std::int64_t rows, std::int64_t row,
                    const op::LayerNormApply& op) {
  const auto part_width = static_cast<T>(op.width / parts);
  T mean = 0, squares = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const T* next = moments_PR2 + (part * rows + row) * 2;
    const auto before = static_cast<T>(part);
    const T delta = next[0] - mean;
    mean += delta / (before + 1);
    squares += next[1] + delta * delta * (part_width * before / (before + 1));
  }
  return {mean, 1 / std::sqrt(squares / static_cast<T>(op.width) + static_cast<T>(op.epsilon))};
}

/// bias_C may be null.
template <class T>
void normalise(const T* x_C, Statistics<T> statistics, const T* gain_C, const T* bias_C,
               std::int64_t channels, T* y_C) {
  const auto [mean, rstd] = statistics;
  if (bias_C == nullptr) {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c) y_C[c] = (x_C[c] - mean) * rstd * gain_C[c];
  } else {
#pragma omp simd
    for (std::int64_t c = 0; c < channels; ++c)
      y_C[c] = (x_C[c] - mean) * rstd * gain_C[c] + bias_C[c];
  }
}

}  // namespace

Run prepare_row(const op::LayerNormMoments& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [parts = op.parts, sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T* x_RC = operands[0].as<T>();
      T* moments_PR2 = operands[1].as<T>();
      const std::int64_t width = sizes.channels / parts;
      for_rows(sizes, threads, [=](std::int64_t row) {
        for (std::int64_t part = 0; part < parts; ++part)
          block_moments(x_RC + row * sizes.channels + part * width, width,
                        moments_PR2 + (part * sizes.rows + row) * 2);
      });
    };
  });
}

Run prepare_row(const op::LayerNormApply& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, sizes, parts = problem.shapes[1][0], threads = problem.threads](Tensors operands,
                                                                                Workspace) {
      const T* x_RC = operands[0].as<T>();
      const T* moments_PR2 = operands[1].as<T>();
      const T* gain_C = operands[2].as<T>();
      const T* bias_C = op.bias ? operands[3].as<T>() : nullptr;
      const std::size_t y = op.bias ? 4 : 3;
      T* y_RC = operands[y].as<T>();
      T* mean_R = operands[y + 1].as<T>();
      T* rstd_R = operands[y + 2].as<T>();
      for_rows(sizes, threads, [=](std::int64_t row) {
        const Statistics<T> merged = merge(moments_PR2, parts, sizes.rows, row, op);
        normalise(x_RC + row * sizes.channels, merged, gain_C, bias_C, sizes.channels,
                  y_RC + row * sizes.channels);
        mean_R[row] = merged.mean;
        rstd_R[row] = merged.rstd;
      });
    };
  });
}

Run prepare_row(const op::LayerNormGradientSums&, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T* x_RC = operands[0].as<T>();
      const T* gain_C = operands[1].as<T>();
      const T* mean_R = operands[2].as<T>();
      const T* rstd_R = operands[3].as<T>();
      const T* y_grad_RC = operands[4].as<T>();
      T* sums_R2 = operands[5].as<T>();
      for_rows(sizes, threads, [=](std::int64_t row) {
        const T* x = x_RC + row * sizes.channels;
        const T* y_grad = y_grad_RC + row * sizes.channels;
        const T mean = mean_R[row], rstd = rstd_R[row];
        T sum = 0, sum_normal = 0;
#pragma omp simd reduction(+ : sum, sum_normal)
        for (std::int64_t c = 0; c < sizes.channels; ++c) {
          const T scaled = y_grad[c] * gain_C[c];
          sum += scaled;
          sum_normal += scaled * ((x[c] - mean) * rstd);
        }
        sums_R2[2 * row] = sum;
        sums_R2[2 * row + 1] = sum_normal;
      });
    };
  });
}

Run prepare_row(const op::LayerNormGradientApply& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, width = static_cast<T>(op.width), threads = problem.threads](Tensors operands,
                                                                                Workspace) {
      const T* x_RC = operands[0].as<T>();
      const T* gain_C = operands[1].as<T>();
      const T* mean_R = operands[2].as<T>();
      const T* rstd_R = operands[3].as<T>();
      const T* y_grad_RC = operands[4].as<T>();
      const T* sums_R2 = operands[5].as<T>();
      T* x_grad_RC = operands[6].as<T>();
      for_rows(sizes, threads, [=](std::int64_t row) {
        const T* x = x_RC + row * sizes.channels;
        const T* y_grad = y_grad_RC + row * sizes.channels;
        T* x_grad = x_grad_RC + row * sizes.channels;
        const T mean = mean_R[row], rstd = rstd_R[row];
        const T average = sums_R2[2 * row] / width, average_normal = sums_R2[2 * row + 1] / width;
#pragma omp simd
        for (std::int64_t c = 0; c < sizes.channels; ++c)
          x_grad[c] =
              rstd * (y_grad[c] * gain_C[c] - average - (x[c] - mean) * rstd * average_normal);
      });
    };
  });
}

}  // namespace fourfold::kernels::cpu
