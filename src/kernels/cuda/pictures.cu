// Pooling, larger pictures, and bytes of pictures as numbers, on the device; op::MaxPool ...
// op::Normalize say what they compute. A thread for each element of the output, neighbours along
// the channels.
#include <algorithm>
#include <vector>

#include "kernels/cuda/pixels.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/picture_sizes.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr unsigned element_threads = 256;

LaunchShape element_launch(std::int64_t count) {
  return stepping_launch(count, element_threads, element_threads);
}

/// What an element of a tensor (B, rows, columns, channels) is numbered by.
struct PictureElement {
  std::int64_t sample, row, column, channel;
  __device__ PictureElement(std::int64_t index, std::int64_t rows, std::int64_t columns,
                            std::int64_t channels)
      : sample(index / channels / columns / rows),
        row(index / channels / columns % rows),
        column(index / channels % columns),
        channel(index % channels) {}
};

struct Largest {
  std::int64_t element;
  float value;
};

/// The largest element of a window in one channel.
template <class T>
__device__ Largest largest_of(const T* x_BHWC, const PoolSizes& sizes, std::int64_t sample,
                              std::int64_t row, std::int64_t column, std::int64_t channel) {
  const std::int64_t first = sizes.pixel(sample, row, column, 0) + channel;
  Largest largest{first, to_float(x_BHWC[first])};
  for (std::int64_t tap = 1; tap < sizes.size * sizes.size; ++tap) {
    const std::int64_t element = sizes.pixel(sample, row, column, tap) + channel;
    const float value = to_float(x_BHWC[element]);
    if (is_larger(value, largest.value)) largest = {element, value};
  }
  return largest;
}

template <class T>
__global__ void max_pool(const T* x_BHWC, PoolSizes sizes, std::int64_t count, T* y_BPQC) {
  begin_kernel();
  for_own_elements(count, [&](std::int64_t index) {
    const PictureElement y(index, sizes.rows, sizes.columns, sizes.channels);
    y_BPQC[index] =
        from_float<T>(largest_of(x_BHWC, sizes, y.sample, y.row, y.column, y.channel).value);
  });
}

template <class T>
__global__ void average_pool(const T* x_BHWC, PoolSizes sizes, std::int64_t count, T* y_BPQC) {
  begin_kernel();
  for_own_elements(count, [&](std::int64_t index) {
    const PictureElement y(index, sizes.rows, sizes.columns, sizes.channels);
    const std::int64_t taps = sizes.size * sizes.size;
    float sum = 0;
    for (std::int64_t tap = 0; tap < taps; ++tap)
      sum += to_float(x_BHWC[sizes.pixel(y.sample, y.row, y.column, tap) + y.channel]);
    y_BPQC[index] = from_float<T>(sum / static_cast<float>(taps));
  });
}

/// The sum of share(row, column, element of y) over the windows that have an element of x, in
/// order.
template <class Share>
__device__ float sum_over_windows(const PoolSizes& sizes, const PictureElement& x, Share share) {
  float sum = 0;
  const std::int64_t end_row = sizes.end_of_windows(x.row, sizes.rows),
                     end_column = sizes.end_of_windows(x.column, sizes.columns);
  for (std::int64_t row = sizes.first_window(x.row); row < end_row; ++row)
    for (std::int64_t column = sizes.first_window(x.column); column < end_column; ++column)
      sum += share(
          row, column,
          ((x.sample * sizes.rows + row) * sizes.columns + column) * sizes.channels + x.channel);
  return sum;
}

template <class T>
__global__ void max_pool_gradient(const T* x_BHWC, const T* y_grad_BPQC, PoolSizes sizes,
                                  std::int64_t count, T* x_grad_BHWC) {
  begin_kernel();
  for_own_elements(count, [&](std::int64_t index) {
    const PictureElement x(index, sizes.height, sizes.width, sizes.channels);
    const float sum =
        sum_over_windows(sizes, x, [&](std::int64_t row, std::int64_t column, std::int64_t y) {
          const Largest largest = largest_of(x_BHWC, sizes, x.sample, row, column, x.channel);
          return largest.element == index
                     ? given_to_largest(largest.value, to_float(y_grad_BPQC[y]))
                     : 0.F;
        });
    x_grad_BHWC[index] = from_float<T>(sum);
  });
}

template <class T>
__global__ void average_pool_gradient(const T* y_grad_BPQC, PoolSizes sizes, std::int64_t count,
                                      T* x_grad_BHWC) {
  begin_kernel();
  for_own_elements(count, [&](std::int64_t index) {
    const PictureElement x(index, sizes.height, sizes.width, sizes.channels);
    const float sum = sum_over_windows(sizes, x, [&](std::int64_t, std::int64_t, std::int64_t y) {
      return to_float(y_grad_BPQC[y]) / static_cast<float>(sizes.size * sizes.size);
    });
    x_grad_BHWC[index] = from_float<T>(sum);
  });
}

template <class T>
__global__ void upsample(const T* x_BHWC, std::int64_t rows, std::int64_t columns,
                         std::int64_t channels, std::int64_t factor, std::int64_t count,
                         T* y_BPQC) {
  begin_kernel();
  for_own_elements(count, [&](std::int64_t index) {
    const PictureElement y(index, rows, columns, channels);
    const std::int64_t row = (y.sample * rows + y.row) / factor;
    y_BPQC[index] = x_BHWC[(row * (columns / factor) + y.column / factor) * channels + y.channel];
  });
}

template <class T>
__global__ void upsample_gradient(const T* y_grad_BPQC, PoolSizes sizes, std::int64_t count,
                                  T* x_grad_BHWC) {
  begin_kernel();
  for_own_elements(count, [&](std::int64_t index) {
    const PictureElement x(index, sizes.rows, sizes.columns, sizes.channels);
    float sum = 0;
    for (std::int64_t tap = 0; tap < sizes.size * sizes.size; ++tap)
      sum += to_float(y_grad_BPQC[sizes.pixel(x.sample, x.row, x.column, tap) + x.channel]);
    x_grad_BHWC[index] = from_float<T>(sum);
  });
}

/// One launch of normalize takes the numbers of this many channels with it.
constexpr std::int64_t channels_at_once = 64;
struct ChannelNumbers {
  std::int64_t first, count;
  float mean[channels_at_once], deviation[channels_at_once];
};

template <class T>
__global__ void normalize(const std::uint8_t* x_NC, ChannelNumbers of, std::int64_t channels,
                          std::int64_t count, T* y_NC) {
  begin_kernel();
  for_own_elements(count, [&](std::int64_t index) {
    const std::int64_t c = index % of.count, element = index / of.count * channels + of.first + c;
    y_NC[element] =
        from_float<T>((static_cast<float>(x_NC[element]) / 255.F - of.mean[c]) / of.deviation[c]);
  });
}

std::vector<ChannelNumbers> channel_numbers(const op::Normalize& op) {
  std::vector<ChannelNumbers> list;
  const auto channels = static_cast<std::int64_t>(op.mean.size());
  for (std::int64_t first = 0; first < channels; first += channels_at_once) {
    ChannelNumbers& of = list.emplace_back(
        ChannelNumbers{first, std::min(channels_at_once, channels - first), {}, {}});
    for (std::int64_t c = 0; c < of.count; ++c) {
      of.mean[c] = static_cast<float>(op.mean[static_cast<std::size_t>(first + c)]);
      of.deviation[c] = static_cast<float>(op.deviation[static_cast<std::size_t>(first + c)]);
    }
  }
  return list;
}

}  // namespace

Enqueue prepare_row(const op::MaxPool& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[0], problem.shapes[1]);
  const std::int64_t count = problem.shapes[1].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      launch(max_pool<T>, element_launch(count), stream, operands[0].as<T>(), sizes, count,
             operands[1].as<T>());
    };
  });
}

Enqueue prepare_row(const op::MaxPoolGradient& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[0], problem.shapes[1]);
  const std::int64_t count = problem.shapes[0].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      launch(max_pool_gradient<T>, element_launch(count), stream, operands[0].as<T>(),
             operands[1].as<T>(), sizes, count, operands[2].as<T>());
    };
  });
}

Enqueue prepare_row(const op::AveragePool& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[0], problem.shapes[1]);
  const std::int64_t count = problem.shapes[1].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      launch(average_pool<T>, element_launch(count), stream, operands[0].as<T>(), sizes, count,
             operands[1].as<T>());
    };
  });
}

Enqueue prepare_row(const op::AveragePoolGradient& op, const Problem& problem) {
  const PoolSizes sizes = pool_sizes(op, problem.shapes[1], problem.shapes[0]);
  const std::int64_t count = problem.shapes[1].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      launch(average_pool_gradient<T>, element_launch(count), stream, operands[0].as<T>(), sizes,
             count, operands[1].as<T>());
    };
  });
}

Enqueue prepare_row(const op::Upsample& op, const Problem& problem) {
  const Shape y = problem.shapes[1];
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [y, factor = op.factor](Tensors operands, Workspace, Stream stream) {
      launch(upsample<T>, element_launch(y.elements()), stream, operands[0].as<T>(), y[1], y[2],
             y[3], factor, y.elements(), operands[1].as<T>());
    };
  });
}

Enqueue prepare_row(const op::UpsampleGradient& op, const Problem& problem) {
  const PoolSizes sizes =
      pool_sizes(op::AveragePool{op.factor, op.factor}, problem.shapes[0], problem.shapes[1]);
  const std::int64_t count = problem.shapes[1].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      launch(upsample_gradient<T>, element_launch(count), stream, operands[0].as<T>(), sizes, count,
             operands[1].as<T>());
    };
  });
}

Enqueue prepare_row(const op::Normalize& op, const Problem& problem) {
  const std::int64_t channels = problem.shapes[0][3], pixels = problem.shapes[0].elements(0, 3);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, numbers = channel_numbers(op)](Tensors operands, Workspace, Stream stream) {
      for (const ChannelNumbers& of : numbers)
        launch(normalize<T>, element_launch(pixels * of.count), stream,
               operands[0].as<std::uint8_t>(), of, channels, pixels * of.count,
               operands[1].as<T>());
    };
  });
}

}  // namespace fourfold::kernels::cuda
