// What a sample's numbers do to its pixels, on the device; op/conditioning.h says what each row
// computes. Letters as there.
#include "kernels/cuda/pixels.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/time_embedding.h"

namespace fourfold::kernels::cuda {
namespace {

template <class T>
__global__ void embed_times(op::TimeEmbedding op, const std::int32_t* t_B, std::int64_t count,
                            T* y_BC) {
  begin_kernel();
  for_own_elements(count, [&](std::int64_t i) {
    y_BC[i] =
        from_float<T>(static_cast<float>(time_embedding(op, t_B[i / op.width], i % op.width)));
  });
}

template <class T>
struct ScaleShiftBody {
  const T* modulation_B2C;
  std::int64_t channels;
  __device__ float operator()(std::int64_t sample, std::int64_t channel,
                              const float (&x)[1]) const {
    const T* const scale = modulation_B2C + 2 * sample * channels + channel;
    return x[0] * (1 + to_float(scale[0])) + to_float(scale[channels]);
  }
};

template <class T>
struct ScaleShiftGradientBody {
  const T* modulation_B2C;
  std::int64_t channels;
  __device__ float operator()(std::int64_t sample, std::int64_t channel,
                              const float (&y_grad)[1]) const {
    return y_grad[0] * (1 + to_float(modulation_B2C[2 * sample * channels + channel]));
  }
};

template <class T>
struct AddToPixelsBody {
  const T* term_BC;
  std::int64_t channels;
  __device__ float operator()(std::int64_t sample, std::int64_t channel,
                              const float (&x)[1]) const {
    return x[0] + to_float(term_BC[sample * channels + channel]);
  }
};

/// sums_BSC[b,s,c], S numbers for each channel of a sample: of y_grad x and of y_grad, or where
/// there is no x of y_grad alone.
template <class T, int count>
__global__ void channel_sums(const T* x_BPC, const T* y_grad_BPC, PixelSizes sizes, T* sums_BSC) {
  begin_kernel();
  const ChannelOfLane of(sizes);
  float sums[count];
  sum_over_pixels(
      sizes, of,
      [&](std::int64_t element, float(&sum)[count]) {
        const float grad = to_float(y_grad_BPC[element]);
        if (count == 2) sum[0] += grad * to_float(x_BPC[element]);
        sum[count - 1] += grad;
      },
      sums);
  if (warp_index() != 0 || of.channel >= sizes.channels) return;
  for (int i = 0; i < count; ++i)
    sums_BSC[(of.sample * count + i) * sizes.channels + of.channel] = from_float<T>(sums[i]);
}

}  // namespace

Enqueue prepare_row(const op::TimeEmbedding& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[1].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [op, count](Tensors operands, Workspace, Stream stream) {
      launch(embed_times<T>, stepping_launch(count, map_threads, map_threads), stream, op,
             operands[0].as<std::int32_t>(), count, operands[1].as<T>());
    };
  });
}

Enqueue prepare_row(const op::ScaleShift&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace, Stream stream) {
      enqueue_pixel_map<T, 1>(sizes, {operands[0].as<T>()}, operands[2].as<T>(),
                              ScaleShiftBody<T>{operands[1].as<T>(), sizes.channels}, stream);
    };
  });
}

Enqueue prepare_row(const op::ScaleShiftGradient&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[1]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace, Stream stream) {
      enqueue_pixel_map<T, 1>(sizes, {operands[1].as<T>()}, operands[2].as<T>(),
                              ScaleShiftGradientBody<T>{operands[0].as<T>(), sizes.channels},
                              stream);
    };
  });
}

Enqueue prepare_row(const op::ScaleShiftSums&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace, Stream stream) {
      launch(channel_sums<T, 2>, channels_launch(sizes), stream, operands[0].as<T>(),
             operands[1].as<T>(), sizes, operands[2].as<T>());
    };
  });
}

Enqueue prepare_row(const op::AddToPixels&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace, Stream stream) {
      enqueue_pixel_map<T, 1>(sizes, {operands[0].as<T>()}, operands[2].as<T>(),
                              AddToPixelsBody<T>{operands[1].as<T>(), sizes.channels}, stream);
    };
  });
}

Enqueue prepare_row(const op::PixelSums&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace, Stream stream) {
      const T* const none = nullptr;
      launch(channel_sums<T, 1>, channels_launch(sizes), stream, none, operands[0].as<T>(), sizes,
             operands[1].as<T>());
    };
  });
}

}  // namespace fourfold::kernels::cuda
