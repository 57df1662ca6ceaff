// Reference rows of what a sample's numbers do to its pixels; op/conditioning.h says what each
// computes. Letters as there.
#include "kernels/reference/pixels.h"
#include "kernels/reference/rows.h"
#include "kernels/storage.h"
#include "kernels/time_embedding.h"

namespace fourfold::kernels::reference {
Run prepare_row(const op::TimeEmbedding& op, const Problem& problem) {
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, samples = problem.shapes[0][0]](Tensors operands, Workspace) {
      const std::int32_t* t_B = operands[0].as<std::int32_t>();
      T* y_BC = operands[1].as<T>();
      for_each_of_samples(samples, op.width, [&](std::int64_t b, std::int64_t i) {
        y_BC[b * op.width + i] = static_cast<T>(static_cast<Sum<T>>(time_embedding(op, t_B[b], i)));
      });
    };
  });
}

Run prepare_row(const op::ScaleShift&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      using S = Sum<T>;
      const T *x = operands[0].as<T>(), *modulation_B2C = operands[1].as<T>();
      T* y = operands[2].as<T>();
      for_elements(sizes, [&](std::int64_t b, std::int64_t c, std::int64_t i) {
        const T* scale = modulation_B2C + 2 * b * sizes.channels + c;
        y[i] = static_cast<T>(static_cast<S>(x[i]) * (1 + static_cast<S>(scale[0])) +
                              static_cast<S>(scale[sizes.channels]));
      });
    };
  });
}

Run prepare_row(const op::ScaleShiftGradient&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[1]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      using S = Sum<T>;
      const T *modulation_B2C = operands[0].as<T>(), *y_grad = operands[1].as<T>();
      T* x_grad = operands[2].as<T>();
      for_elements(sizes, [&](std::int64_t b, std::int64_t c, std::int64_t i) {
        const S scale = static_cast<S>(modulation_B2C[2 * b * sizes.channels + c]);
        x_grad[i] = static_cast<T>(static_cast<S>(y_grad[i]) * (1 + scale));
      });
    };
  });
}

Run prepare_row(const op::ScaleShiftSums&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      using S = Sum<T>;
      const T *x = operands[0].as<T>(), *y_grad = operands[1].as<T>();
      T* sums_B2C = operands[2].as<T>();
      const auto grad = [&](std::int64_t i) { return static_cast<S>(y_grad[i]); };
      for_each_of_samples(sizes.samples, sizes.channels, [&](std::int64_t b, std::int64_t c) {
        T* sums = sums_B2C + 2 * b * sizes.channels + c;
        sums[0] = static_cast<T>(sum_over_pixels<S>(
            sizes, b, c, [&](std::int64_t i) { return grad(i) * static_cast<S>(x[i]); }));
        sums[sizes.channels] = static_cast<T>(sum_over_pixels<S>(sizes, b, c, grad));
      });
    };
  });
}

Run prepare_row(const op::AddToPixels&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      using S = Sum<T>;
      const T *x = operands[0].as<T>(), *term_BC = operands[1].as<T>();
      T* y = operands[2].as<T>();
      for_elements(sizes, [&](std::int64_t b, std::int64_t c, std::int64_t i) {
        y[i] =
            static_cast<T>(static_cast<S>(x[i]) + static_cast<S>(term_BC[b * sizes.channels + c]));
      });
    };
  });
}

Run prepare_row(const op::PixelSums&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_storage(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes](Tensors operands, Workspace) {
      using S = Sum<T>;
      const T* y_grad = operands[0].as<T>();
      const auto grad = [&](std::int64_t i) { return static_cast<S>(y_grad[i]); };
      for_each_of_samples(sizes.samples, sizes.channels, [&](std::int64_t b, std::int64_t c) {
        operands[1].as<T>()[b * sizes.channels + c] =
            static_cast<T>(sum_over_pixels<S>(sizes, b, c, grad));
      });
    };
  });
}

}  // namespace fourfold::kernels::reference
