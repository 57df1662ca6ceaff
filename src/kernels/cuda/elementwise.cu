// Bias, GELU, sum, selection of a position and constants on the device; op::AddBias ...
// op::Add, op::BiasGelu, op::TakePosition and op::Fill state the contracts.
#include "kernels/cuda/gelu.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

/// The bias of consecutive elements, from the column of the first.
template <class T>
struct Bias {
  const T* values;
  std::int64_t columns;

  template <int size>
  __device__ void add_to(std::int64_t first, const float (&x)[size], float (&sum)[size]) const {
    std::int64_t column = first % columns;
    for (int i = 0; i < size; ++i) {
      sum[i] = stored<T>(x[i] + to_float(values[column]));
      if (++column == columns) column = 0;
    }
  }
};

template <class T>
struct AddBiasBody {
  Bias<T> bias;
  template <int size>
  __device__ void operator()(std::int64_t first, const float (&in)[1][size],
                             float (&out)[1][size]) const {
    bias.add_to(first, in[0], out[0]);
  }
};

template <class T>
struct BiasGeluBody {
  Bias<T> bias;
  template <int size>
  __device__ void operator()(std::int64_t first, const float (&in)[1][size],
                             float (&out)[2][size]) const {
    bias.add_to(first, in[0], out[0]);
    for (int i = 0; i < size; ++i) out[1][i] = gelu(out[0][i]);
  }
};

struct GeluBody {
  template <int size>
  __device__ void operator()(std::int64_t, const float (&in)[1][size],
                             float (&out)[1][size]) const {
    for (int i = 0; i < size; ++i) out[0][i] = gelu(in[0][i]);
  }
};

struct GeluGradientBody {
  template <int size>
  __device__ void operator()(std::int64_t, const float (&in)[2][size],
                             float (&out)[1][size]) const {
    for (int i = 0; i < size; ++i) out[0][i] = in[1][i] * gelu_derivative(in[0][i]);
  }
};

struct AddBody {
  template <int size>
  __device__ void operator()(std::int64_t, const float (&in)[2][size],
                             float (&out)[1][size]) const {
    for (int i = 0; i < size; ++i) out[0][i] = in[0][i] + in[1][i];
  }
};

__global__ void add_integers(const std::uint64_t* a, const std::uint64_t* b, std::int64_t count,
                             std::uint64_t* sum) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) sum[i] = a[i] + b[i];
}

template <class T>
__global__ void fill(T value, std::int64_t count, T* x) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) x[i] = value;
}

/// y[b,:] = x[b,index,:]; a block for each sample.
template <class T>
__global__ void take_position(const T* x_BTC, const std::int32_t* index, std::int64_t time,
                              std::int64_t channels, T* y_BC) {
  const std::int64_t sample = blockIdx.x;
  for (std::int64_t channel = threadIdx.x; channel < channels; channel += blockDim.x)
    y_BC[sample * channels + channel] = x_BTC[(sample * time + *index) * channels + channel];
}

}  // namespace

Enqueue prepare_row(const op::AddBias&, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements(), columns = problem.shapes[1].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [count, columns](Tensors operands, Workspace, Stream stream) {
      enqueue_map(map_tensors<T>(count, {operands[0].as<T>()}, {operands[2].as<T>()}),
                  AddBiasBody<T>{{operands[1].as<T>(), columns}}, stream);
    };
  });
}

Enqueue prepare_row(const op::BiasGelu&, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements(), columns = problem.shapes[1].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [count, columns](Tensors operands, Workspace, Stream stream) {
      enqueue_map(
          map_tensors<T>(count, {operands[0].as<T>()}, {operands[2].as<T>(), operands[3].as<T>()}),
          BiasGeluBody<T>{{operands[1].as<T>(), columns}}, stream);
    };
  });
}

Enqueue prepare_row(const op::Gelu&, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [count](Tensors operands, Workspace, Stream stream) {
      enqueue_map(map_tensors<T>(count, {operands[0].as<T>()}, {operands[1].as<T>()}), GeluBody{},
                  stream);
    };
  });
}

Enqueue prepare_row(const op::GeluGradient&, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [count](Tensors operands, Workspace, Stream stream) {
      enqueue_map(
          map_tensors<T>(count, {operands[0].as<T>(), operands[1].as<T>()}, {operands[2].as<T>()}),
          GeluGradientBody{}, stream);
    };
  });
}

Enqueue prepare_row(const op::Add&, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  // Sums mod 2^64 are the same bits with and without sign.
  if (problem.dtype == DType::i64 || problem.dtype == DType::u64)
    return [count](Tensors operands, Workspace, Stream stream) {
      launch(add_integers, stepping_launch(count, map_threads, map_threads), stream,
             operands[0].as<std::uint64_t>(), operands[1].as<std::uint64_t>(), count,
             operands[2].as<std::uint64_t>());
    };
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [count](Tensors operands, Workspace, Stream stream) {
      enqueue_map(
          map_tensors<T>(count, {operands[0].as<T>(), operands[1].as<T>()}, {operands[2].as<T>()}),
          AddBody{}, stream);
    };
  });
}

Enqueue prepare_row(const op::Fill& op, const Problem& problem) {
  const std::int64_t count = problem.shapes[0].elements();
  const LaunchShape shape = stepping_launch(count, map_threads, map_threads);
  if (problem.dtype == DType::i64 || problem.dtype == DType::u64)
    return [=, value = static_cast<std::int64_t>(op.value)](Tensors operands, Workspace,
                                                            Stream stream) {
      launch(fill<std::int64_t>, shape, stream, value, count, operands[0].as<std::int64_t>());
    };
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, value = static_cast<T>(static_cast<float>(op.value))](Tensors operands, Workspace,
                                                                     Stream stream) {
      launch(fill<T>, shape, stream, value, count, operands[0].as<T>());
    };
  });
}

Enqueue prepare_row(const op::TakePosition&, const Problem& problem) {
  const Shape x = problem.shapes[0];
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(x[0]);
  shape.threads = map_threads;
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, time = x[1], channels = x[2]](Tensors operands, Workspace, Stream stream) {
      launch(take_position<T>, shape, stream, operands[0].as<T>(), operands[1].as<std::int32_t>(),
             time, channels, operands[2].as<T>());
    };
  });
}

}  // namespace fourfold::kernels::cuda
