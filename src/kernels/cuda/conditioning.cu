// What a sample's numbers do to its pixels, on the device; op/conditioning.h says what each row
// computes. Letters as there.
#include "kernels/cuda/group_norm.cuh"
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
  using Channels = ModulationOfPack<T>;
  const T* modulation_B2C;
  std::int64_t width;
  __device__ Channels channels(std::int64_t sample, int channel, int count) const {
    return Channels(modulation_B2C, width, sample, channel, count);
  }
  template <int size>
  __device__ void compute(const Channels& kept, std::int64_t, const float (&x)[1][size],
                          float (&y)[size]) const {
#pragma unroll
    for (int i = 0; i < size; ++i) y[i] = kept.apply(i, x[0][i]);
  }
};

template <class T>
struct ScaleShiftGradientBody : ScaleShiftBody<T> {
  template <int size>
  __device__ void compute(const ModulationOfPack<T>& kept, std::int64_t,
                          const float (&y_grad)[1][size], float (&x_grad)[size]) const {
#pragma unroll
    for (int i = 0; i < size; ++i) x_grad[i] = kept.gradient(i, y_grad[0][i]);
  }
};

template <class T>
struct AddToPixelsBody {
  struct Channels {
    OfPack<T> term = {};
  };
  const T* term_BC;
  std::int64_t width;
  __device__ Channels channels(std::int64_t sample, int channel, int count) const {
    Channels kept;
    for (int i = 0; i < count; ++i) kept.term[i] = to_float(term_BC[sample * width + channel + i]);
    return kept;
  }
  template <int size>
  __device__ void compute(const Channels& kept, std::int64_t, const float (&x)[1][size],
                          float (&y)[size]) const {
#pragma unroll
    for (int i = 0; i < size; ++i) y[i] = x[0][i] + kept.term[i];
  }
};

/// Sums of y_grad x and of y_grad, or where there is no x of y_grad alone.
template <class T, int count>
struct ConditionTerms {
  using Element = T;
  static constexpr int sums = count, ahead = 8 / count;
  struct Channels {};
  struct Loaded {
    PackOf<T, T> of[count];  // y_grad last
  };
  const T *x_BPC, *y_grad_BPC;

  bool are_whole(const PixelSizes& sizes) const {
    return are_whole_packs<T>(sizes, x_BPC, y_grad_BPC);
  }
  __device__ Channels channels(std::int64_t, int, int) const { return {}; }
  template <class Part>
  __device__ Loaded load(std::int64_t element, Part part) const {
    Loaded loaded;
    if constexpr (count == 2) loaded.of[0] = load_packs<T>(x_BPC + element, part);
    loaded.of[count - 1] = load_packs<T>(y_grad_BPC + element, part);
    return loaded;
  }
  template <class Part>
  __device__ void add(const Channels&, const Loaded& of, std::int64_t, Part,
                      float (&sum)[count][pack_size<T>]) const {
#pragma unroll
    for (int i = 0; i < pack_size<T>; ++i) {
      const float grad = of.of[count - 1][i];
      if constexpr (count == 2) sum[0][i] += grad * of.of[0][i];
      sum[count - 1][i] += grad;
    }
  }
};

/// sums_BSC[b,s,c], S numbers for each channel of a sample, from what stretches have.
template <class T>
__global__ void add_stretches_of_sums(StretchNumbers numbers, int count, T* sums_BSC) {
  begin_kernel();
  for_own_elements(numbers.samples * numbers.channels, [&](std::int64_t i) {
    const std::int64_t sample = i / numbers.channels, channel = i % numbers.channels;
    for (int sum = 0; sum < count; ++sum)
      sums_BSC[(sample * count + sum) * numbers.channels + channel] =
          from_float<T>(numbers.total(sum, sample, channel));
  });
}

template <class T, int count>
void enqueue_condition_sums(const T* x_BPC, const T* y_grad_BPC, const PixelSizes& sizes,
                            T* sums_BSC, Workspace workspace, Stream stream) {
  const PixelBlocks blocks = pixel_blocks<T>(sizes);
  enqueue_pixel_sums(blocks, ConditionTerms<T, count>{x_BPC, y_grad_BPC}, workspace, stream);
  launch(add_stretches_of_sums<T>,
         stepping_launch(sizes.samples * sizes.channels, map_threads, map_threads), stream,
         StretchNumbers(blocks, workspace), count, sums_BSC);
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
                              ScaleShiftGradientBody<T>{{operands[0].as<T>(), sizes.channels}},
                              stream);
    };
  });
}

std::int64_t workspace_bytes(const op::ScaleShiftSums&, const Problem& problem) {
  return bytes_of_pixel_sums(pixel_sizes(problem.shapes[0]), problem.dtype, 2);
}
std::int64_t workspace_bytes(const op::PixelSums&, const Problem& problem) {
  return bytes_of_pixel_sums(pixel_sizes(problem.shapes[0]), problem.dtype, 1);
}

Enqueue prepare_row(const op::ScaleShiftSums&, const Problem& problem) {
  const PixelSizes sizes = pixel_sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace workspace, Stream stream) {
      enqueue_condition_sums<T, 2>(operands[0].as<T>(), operands[1].as<T>(), sizes,
                                   operands[2].as<T>(), workspace, stream);
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
    return [sizes](Tensors operands, Workspace workspace, Stream stream) {
      const T* const none = nullptr;
      enqueue_condition_sums<T, 1>(none, operands[0].as<T>(), sizes, operands[1].as<T>(), workspace,
                                   stream);
    };
  });
}

}  // namespace fourfold::kernels::cuda
