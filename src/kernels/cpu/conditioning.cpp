// What a sample's numbers do to its pixels, on CPU; op/conditioning.h says what each row computes.
// Letters as there.
#include "kernels/cpu/pixels.h"
#include "kernels/cpu/rows.h"
#include "kernels/storage.h"
#include "kernels/time_embedding.h"

namespace fourfold::kernels::cpu {
namespace {

/// y = change(x, numbers of the channel's sample from its own on, channels) for all elements, y
/// being operand 2. `x` and `numbers` are the places of what is changed and of what a sample has
/// for all of its pixels.
template <class Change>
Run change_pixels(const Problem& problem, std::size_t x, std::size_t numbers, Change change) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[x]);
  return for_float(problem.dtype, [&]<class T>(As<T>) -> Run {
    return [=, of_sample = problem.shapes[numbers].elements(1, problem.shapes[numbers].rank()),
            threads = problem.threads](Tensors operands, Workspace) {
      const T* from = operands[x].as<T>();
      T* to = operands[2].as<T>();
      for_channel_blocks(sizes, threads, [&](const ChannelBlock& block) {
        const T* own = operands[numbers].as<T>() + block.sample * of_sample + block.first;
        for_elements(sizes, block, [&](std::int64_t at, std::int64_t i) {
          to[at] = change(from[at], own + i, sizes.channels);
        });
      });
    };
  });
}

}  // namespace

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
  return change_pixels(problem, 0, 1, [](auto x, const auto* scale, std::int64_t channels) {
    return x * (1 + scale[0]) + scale[channels];
  });
}

Run prepare_row(const op::ScaleShiftGradient&, const Problem& problem) {
  return change_pixels(problem, 1, 0, [](auto y_grad, const auto* scale, std::int64_t) {
    return y_grad * (1 + scale[0]);
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
  return change_pixels(problem, 0, 1,
                       [](auto x, const auto* term, std::int64_t) { return x + term[0]; });
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
