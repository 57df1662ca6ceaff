// Reference pooling, larger pictures, and bytes of pictures as numbers; op::MaxPool ...
// op::Normalize say what they compute. Letters as in op/pictures.h.
#include <algorithm>

#include "kernels/picture_sizes.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"

namespace fourfold::kernels::reference {
namespace {

/// body(b, p, q, c, index in y) for all elements of y, in order.
template <class Body>
void for_windows(const PoolSizes& sizes, Body body) {
  std::int64_t index = 0;
  for (std::int64_t b = 0; b < sizes.samples; ++b)
    for (std::int64_t p = 0; p < sizes.rows; ++p)
      for (std::int64_t q = 0; q < sizes.columns; ++q)
        for (std::int64_t c = 0; c < sizes.channels; ++c) body(b, p, q, c, index++);
}

/// The element of x that is the largest of a window.
template <class T>
std::int64_t largest_of(const T* x_BHWC, const PoolSizes& sizes, std::int64_t b, std::int64_t p,
                        std::int64_t q, std::int64_t c) {
  std::int64_t largest = sizes.pixel(b, p, q, 0) + c;
  for (std::int64_t tap = 1; tap < sizes.taps(); ++tap) {
    const std::int64_t other = sizes.pixel(b, p, q, tap) + c;
    if (is_larger(static_cast<Sum<T>>(x_BHWC[other]), static_cast<Sum<T>>(x_BHWC[largest])))
      largest = other;
  }
  return largest;
}

/// x_grad = the sums over windows of share(window, tap), a window being an element of y. Sums stay
/// in their own type until the end.
template <class T, class Share>
void add_shares(const PoolSizes& sizes, Share share, T* x_grad_BHWC) {
  for (std::int64_t b = 0; b < sizes.samples; ++b)
    for (std::int64_t h = 0; h < sizes.height; ++h)
      for (std::int64_t w = 0; w < sizes.width; ++w)
        for (std::int64_t c = 0; c < sizes.channels; ++c) {
          const std::int64_t x = ((b * sizes.height + h) * sizes.width + w) * sizes.channels + c;
          Sum<T> sum = 0;
          for (std::int64_t p = sizes.first_window(h); p < sizes.end_of_windows(h, sizes.rows); ++p)
            for (std::int64_t q = sizes.first_window(w); q < sizes.end_of_windows(w, sizes.columns);
                 ++q)
              sum += share(b, p, q, c, x);
          x_grad_BHWC[x] = static_cast<T>(sum);
        }
}

template <class T>
Sum<T> element_of(const T* y_BPQC, const PoolSizes& sizes, std::int64_t b, std::int64_t p,
                  std::int64_t q, std::int64_t c) {
  return static_cast<Sum<T>>(
      y_BPQC[((b * sizes.rows + p) * sizes.columns + q) * sizes.channels + c]);
}

/// y = the sum over a window of x, divided by `divisor`.
Run sum_windows(const PoolSizes& sizes, std::int64_t divisor, DType dtype) {
  return for_storage(dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, divisor](Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      T* y = operands[1].as<T>();
      for_windows(sizes, [&](std::int64_t b, std::int64_t p, std::int64_t q, std::int64_t c,
                             std::int64_t index) {
        Sum<T> sum = 0;
        for (std::int64_t tap = 0; tap < sizes.taps(); ++tap)
          sum += static_cast<Sum<T>>(x[sizes.pixel(b, p, q, tap) + c]);
        y[index] = static_cast<T>(sum / static_cast<Sum<T>>(divisor));
      });
    };
  });
}

}  // namespace

Run prepare_row(const op::MaxPool& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[0], problem.shapes[1]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      T* y = operands[1].as<T>();
      for_windows(sizes,
                  [&](std::int64_t b, std::int64_t p, std::int64_t q, std::int64_t c,
                      std::int64_t index) { y[index] = x[largest_of(x, sizes, b, p, q, c)]; });
    };
  });
}

Run prepare_row(const op::MaxPoolGradient& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[0], problem.shapes[1]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      const T* y_grad = operands[1].as<T>();
      const auto share = [&](std::int64_t b, std::int64_t p, std::int64_t q, std::int64_t c,
                             std::int64_t element) {
        if (largest_of(x, sizes, b, p, q, c) != element) return Sum<T>{0};
        return given_to_largest(static_cast<Sum<T>>(x[element]),
                                element_of(y_grad, sizes, b, p, q, c));
      };
      add_shares(sizes, share, operands[2].as<T>());
    };
  });
}

Run prepare_row(const op::AveragePool& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[0], problem.shapes[1]);
  return sum_windows(sizes, sizes.taps(), problem.dtype);
}

Run prepare_row(const op::AveragePoolGradient& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[1], problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      const T* y_grad = operands[0].as<T>();
      const auto share = [&](std::int64_t b, std::int64_t p, std::int64_t q, std::int64_t c,
                             std::int64_t) {
        return element_of(y_grad, sizes, b, p, q, c) / static_cast<Sum<T>>(sizes.taps());
      };
      add_shares(sizes, share, operands[1].as<T>());
    };
  });
}

Run prepare_row(const op::Upsample& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [factor = op.factor, x_shape = problem.shapes[0], y_shape = problem.shapes[1]](
               Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      T* y = operands[1].as<T>();
      for (std::int64_t b = 0; b < y_shape[0]; ++b)
        for (std::int64_t p = 0; p < y_shape[1]; ++p)
          for (std::int64_t q = 0; q < y_shape[2]; ++q) {
            const std::int64_t pixel = (b * x_shape[1] + p / factor) * x_shape[2] + q / factor;
            y = std::copy_n(x + pixel * x_shape[3], x_shape[3], y);
          }
    };
  });
}

Run prepare_row(const op::UpsampleGradient& op, const Problem& problem) {
  return sum_windows(
      pool_sizes(op::AveragePool{op.factor, op.factor}, problem.shapes[0], problem.shapes[1]), 1,
      problem.dtype);
}

Run prepare_row(const op::Normalize& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, count = problem.shapes[0].elements()](Tensors operands, Workspace) {
      const std::uint8_t* x = operands[0].as<std::uint8_t>();
      T* y = operands[1].as<T>();
      for (std::int64_t i = 0; i < count; ++i) {
        const std::size_t c = static_cast<std::size_t>(i) % op.mean.size();
        y[i] = static_cast<T>((static_cast<Sum<T>>(x[i]) / 255 - static_cast<Sum<T>>(op.mean[c])) /
                              static_cast<Sum<T>>(op.deviation[c]));
      }
    };
  });
}

}  // namespace fourfold::kernels::reference
