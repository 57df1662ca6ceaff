// What a sample's numbers do to its pixels, on CPU; op/conditioning.h says what each row computes.
// Letters as there.
#include "kernels/cpu/pixels.h"
#include "kernels/cpu/rows.h"
#include "kernels/storage.h"
#include "kernels/time_embedding.h"

namespace fourfold::kernels::cpu {

Run prepare_row(const op::TimeEmbedding& op, const Problem& problem) {
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [op, samples = problem.shapes[0][0]](Tensors operands, Workspace) {
      for (std::int64_t b = 0; b < samples; ++b)
        for (std::int64_t i = 0; i < op.width; ++i)
          operands[1].as<T>()[b * op.width + i] =
              static_cast<T>(time_embedding(op, operands[0].as<std::int32_t>()[b], i));
    };
  });
}

Run prepare_row(const op::ScaleShift&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      T* y = operands[2].as<T>();
      for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
        const T* scale = operands[1].as<T>() + 2 * block.sample * sizes.channels + block.first;
        const T* shift = scale + sizes.channels;
        for_elements(sizes, block, [&](std::int64_t at, std::int64_t i) {
          y[at] = x[at] * (1 + scale[i]) + shift[i];
        });
      });
    };
  });
}

Run prepare_row(const op::ScaleShiftGradient&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[1]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T* y_grad = operands[1].as<T>();
      T* x_grad = operands[2].as<T>();
      for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
        const T* scale = operands[0].as<T>() + 2 * block.sample * sizes.channels + block.first;
        for_elements(sizes, block, [&](std::int64_t at, std::int64_t i) {
          x_grad[at] = y_grad[at] * (1 + scale[i]);
        });
      });
    };
  });
}

Run prepare_row(const op::ScaleShiftSums&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T *x = operands[0].as<T>(), *y_grad = operands[1].as<T>();
      for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
        T* sums = operands[2].as<T>() + 2 * block.sample * sizes.channels + block.first;
        sum_over_pixels<T>(
            sizes, block, [=](std::int64_t at, std::int64_t) { return y_grad[at] * x[at]; }, sums);
        sum_over_pixels<T>(
            sizes, block, [=](std::int64_t at, std::int64_t) { return y_grad[at]; },
            sums + sizes.channels);
      });
    };
  });
}

Run prepare_row(const op::AddToPixels&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T* x = operands[0].as<T>();
      T* y = operands[2].as<T>();
      for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
        const T* term = operands[1].as<T>() + block.sample * sizes.channels + block.first;
        for_elements(sizes, block,
                     [&](std::int64_t at, std::int64_t i) { y[at] = x[at] + term[i]; });
      });
    };
  });
}

Run prepare_row(const op::PixelSums&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [sizes, threads = problem.threads](Tensors operands, Workspace) {
      const T* y_grad = operands[0].as<T>();
      for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
        sum_over_pixels<T>(
            sizes, block, [=](std::int64_t at, std::int64_t) { return y_grad[at]; },
            operands[1].as<T>() + block.sample * sizes.channels + block.first);
      });
    };
  });
}

}  // namespace fourfold::kernels::cpu
