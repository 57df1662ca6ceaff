// Pooling, larger pictures, and bytes of pictures as numbers, on CPU. Letters as in op/pictures.h.
// Vectors run along the channels.
#include <algorithm>
#include <type_traits>

#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/picture_sizes.h"
#include "kernels/storage.h"

namespace fourfold::kernels::cpu {
namespace {

/// body(sample, row, column, element of y) for the windows of all samples, threads sharing rows.
template <class Body>
void for_windows(const PoolSizes& sizes, int threads, Body body) {
  const std::int64_t rows = sizes.samples * sizes.rows;
  const std::int64_t work = rows * sizes.columns * sizes.channels * sizes.taps();
  for_ranges(rows, team_size(threads, work), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row)
      for (std::int64_t column = 0; column < sizes.columns; ++column)
        body(row / sizes.rows, row % sizes.rows, column,
             (row * sizes.columns + column) * sizes.channels);
  });
}

/// Channels whose windows are looked at together: what is known of them stays in registers.
constexpr std::int64_t channels_at_once = 16;

/// body(sample, first channel, count), threads sharing them: windows that overlap have one thread.
template <class Body>
void for_channels(const PoolSizes& sizes, int threads, Body body) {
  const std::int64_t groups = (sizes.channels + channels_at_once - 1) / channels_at_once;
  const std::int64_t work = sizes.samples * sizes.height * sizes.width * sizes.channels;
  for_ranges(sizes.samples * groups, team_size(threads, work), 1,
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t group = first; group < last; ++group) {
                 const std::int64_t channel = group % groups * channels_at_once;
                 body(group / groups, channel,
                      std::min(channels_at_once, sizes.channels - channel));
               }
             });
}

/// Adds to x_grad what each window gives, in order. give(y, count, element_of) does so for `count`
/// channels of the window that begin at element y of y_grad; element_of(tap) is the element of x
/// and of x_grad where they begin under a tap.
template <class T, class Give>
void add_windows(const PoolSizes& sizes, int threads, T* x_grad, Give give) {
  for_channels(sizes, threads, [&](std::int64_t sample, std::int64_t channel, std::int64_t count) {
    for (std::int64_t pixel = 0; pixel < sizes.height * sizes.width; ++pixel)
      std::fill_n(x_grad + (sample * sizes.height * sizes.width + pixel) * sizes.channels + channel,
                  count, T{0});
    for (std::int64_t row = 0; row < sizes.rows; ++row)
      for (std::int64_t column = 0; column < sizes.columns; ++column) {
        const std::int64_t y =
            ((sample * sizes.rows + row) * sizes.columns + column) * sizes.channels + channel;
        give(y, count,
             [&](std::int64_t tap) { return sizes.pixel(sample, row, column, tap) + channel; });
      }
  });
}

template <class T>
void max_pool(const T* x_BHWC, const PoolSizes& sizes, int threads, T* y_BPQC) {
  for_windows(sizes, threads,
              [&](std::int64_t b, std::int64_t p, std::int64_t q, std::int64_t element) {
                T* y = y_BPQC + element;
                std::copy_n(x_BHWC + sizes.pixel(b, p, q, 0), sizes.channels, y);
                for (std::int64_t tap = 1; tap < sizes.taps(); ++tap) {
                  const T* x = x_BHWC + sizes.pixel(b, p, q, tap);
#pragma omp simd
                  for (std::int64_t c = 0; c < sizes.channels; ++c)
                    y[c] = is_larger(x[c], y[c]) ? x[c] : y[c];
                }
              });
}

template <class T>
void max_pool_gradient(const T* x_BHWC, const T* y_grad_BPQC, const PoolSizes& sizes, int threads,
                       T* x_grad_BHWC) {
  using Tap = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  add_windows(sizes, threads, x_grad_BHWC,
              [&](std::int64_t y, std::int64_t count, const auto& element_of) {
                T largest[channels_at_once], given[channels_at_once];
                Tap at[channels_at_once] = {};
                std::copy_n(x_BHWC + element_of(0), count, largest);
                for (std::int64_t tap = 1; tap < sizes.taps(); ++tap) {
                  const T* x = x_BHWC + element_of(tap);
#pragma omp simd
                  for (std::int64_t c = 0; c < count; ++c) {
                    const bool is_new = is_larger(x[c], largest[c]);
                    largest[c] = is_new ? x[c] : largest[c];
                    at[c] = is_new ? static_cast<Tap>(tap) : at[c];
                  }
                }
#pragma omp simd
                for (std::int64_t c = 0; c < count; ++c)
                  given[c] = given_to_largest(largest[c], y_grad_BPQC[y + c]);
                for (std::int64_t tap = 0; tap < sizes.taps(); ++tap) {
                  T* to = x_grad_BHWC + element_of(tap);
#pragma omp simd
                  for (std::int64_t c = 0; c < count; ++c)
                    to[c] += at[c] == static_cast<Tap>(tap) ? given[c] : T{0};
                }
              });
}

/// y = the sum over a window of x, divided by `divisor`.
template <class T>
void sum_windows(const T* x_BHWC, const PoolSizes& sizes, int threads, T divisor, T* y_BPQC) {
  for_windows(sizes, threads,
              [&](std::int64_t b, std::int64_t p, std::int64_t q, std::int64_t element) {
                T* y = y_BPQC + element;
                std::copy_n(x_BHWC + sizes.pixel(b, p, q, 0), sizes.channels, y);
                for (std::int64_t tap = 1; tap < sizes.taps(); ++tap) {
                  const T* x = x_BHWC + sizes.pixel(b, p, q, tap);
#pragma omp simd
                  for (std::int64_t c = 0; c < sizes.channels; ++c) y[c] += x[c];
                }
#pragma omp simd
                for (std::int64_t c = 0; c < sizes.channels; ++c) y[c] /= divisor;
              });
}

template <class T>
void average_pool_gradient(const T* y_grad_BPQC, const PoolSizes& sizes, int threads,
                           T* x_grad_BHWC) {
  add_windows(sizes, threads, x_grad_BHWC,
              [&](std::int64_t y, std::int64_t count, const auto& element_of) {
                for (std::int64_t tap = 0; tap < sizes.taps(); ++tap) {
                  T* to = x_grad_BHWC + element_of(tap);
#pragma omp simd
                  for (std::int64_t c = 0; c < count; ++c)
                    to[c] += y_grad_BPQC[y + c] / static_cast<T>(sizes.taps());
                }
              });
}

}  // namespace

Run prepare_row(const op::MaxPool& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[0], problem.shapes[1]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      max_pool<T>(operands[0].as<T>(), sizes, threads, operands[1].as<T>());
    };
  });
}

Run prepare_row(const op::MaxPoolGradient& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[0], problem.shapes[1]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      max_pool_gradient<T>(operands[0].as<T>(), operands[1].as<T>(), sizes, threads,
                           operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::AveragePool& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[0], problem.shapes[1]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      sum_windows<T>(operands[0].as<T>(), sizes, threads, static_cast<T>(sizes.taps()),
                     operands[1].as<T>());
    };
  });
}

Run prepare_row(const op::AveragePoolGradient& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[1], problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      average_pool_gradient<T>(operands[0].as<T>(), sizes, threads, operands[1].as<T>());
    };
  });
}

Run prepare_row(const op::Upsample& op, const Problem& problem) {
  const Shape &x_shape = problem.shapes[0], &y_shape = problem.shapes[1];
  const std::int64_t channels = x_shape[3], columns = y_shape[2];
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, factor = op.factor, rows = y_shape.elements(0, 2), threads = problem.threads](
               Tensors operands, Workspace) {
      for_ranges(rows, team_size(threads, rows * columns * channels), 1,
                 [&](std::int64_t first, std::int64_t last) {
                   T* y = operands[1].as<T>() + first * columns * channels;
                   for (std::int64_t row = first; row < last; ++row) {
                     const T* x =
                         operands[0].as<T>() + row / factor * (columns / factor) * channels;
                     for (std::int64_t q = 0; q < columns; ++q)
                       y = std::copy_n(x + q / factor * channels, channels, y);
                   }
                 });
    };
  });
}

Run prepare_row(const op::UpsampleGradient& op, const Problem& problem) {
  const PoolSizes sizes =
      pool_sizes(op::AveragePool{op.factor, op.factor}, problem.shapes[0], problem.shapes[1]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      sum_windows<T>(operands[0].as<T>(), sizes, threads, T{1}, operands[1].as<T>());
    };
  });
}

Run prepare_row(const op::Normalize& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[0][3], pixels = problem.shapes[0].elements(0, 3);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, threads = problem.threads, mean = std::vector<T>(op.mean.begin(), op.mean.end()),
            deviation = std::vector<T>(op.deviation.begin(), op.deviation.end())](Tensors operands,
                                                                                  Workspace) {
      const std::uint8_t* x_NC = operands[0].as<std::uint8_t>();
      T* y_NC = operands[1].as<T>();
      const T *mean_C = mean.data(), *deviation_C = deviation.data();
      for_ranges(pixels, team_size(threads, pixels * channels), element_grain,
                 [&](std::int64_t first, std::int64_t last) {
                   for (std::int64_t c = 0; c < channels; ++c)
#pragma omp simd
                     for (std::int64_t n = first; n < last; ++n)
                       y_NC[n * channels + c] =
                           (static_cast<T>(x_NC[n * channels + c]) / 255 - mean_C[c]) /
                           deviation_C[c];
                 });
    };
  });
}

}  // namespace fourfold::kernels::cpu
