// Bias, selection of a position and constants on the device, and the loop of the rows of
// op/elementwise.h.
#include <utility>

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

using kernels::element;

template <class Row, class T, std::size_t... read>
__device__ T element_of(const Row& row, const T (&in)[sizeof...(read)],
                        std::index_sequence<read...>) {
  return element(Math{}, row, in[read]...);
}

template <class Row>
struct ElementBody {
  static constexpr int reads = static_cast<int>(Row::rule.num_reads);
  Row row;

  template <int size>
  __device__ void operator()(std::int64_t, const float (&in)[reads][size],
                             float (&out)[1][size]) const {
    for (int i = 0; i < size; ++i) {
      float values[reads];
      for (int read = 0; read < reads; ++read) values[read] = in[read][i];
      out[0][i] = element_of(row, values, std::make_index_sequence<reads>());
    }
  }
};

/// What a row reads: integers, or sums in f64.
template <class T, int count>
struct Reads {
  const T* tensors[count];
};

/// In the type itself: for counters, digests and the few sums of a step.
template <class Row, class T>
__global__ void map_as_it_is(Row row, Reads<T, ElementBody<Row>::reads> in, std::int64_t count,
                             T* out) {
  begin_kernel();
  constexpr int reads = ElementBody<Row>::reads;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) {
    T values[reads];
    for (int read = 0; read < reads; ++read) values[read] = in.tensors[read][i];
    out[i] = element_of(row, values, std::make_index_sequence<reads>());
  }
}

template <class T, int count>
Reads<T, count> reads_of(Tensors operands) {
  Reads<T, count> reads;
  for (std::size_t i = 0; i < count; ++i) reads.tensors[i] = operands[i].as<T>();
  return reads;
}

/// Which operands of a row of T have the type of sums instead, a bit for each.
template <class Row>
constexpr unsigned wide_operands() {
  unsigned wide = 0;
  for (std::size_t i = 0; i <= Row::rule.num_reads; ++i)
    if (Row::rule.operands[i].element == op::Element::accumulate) wide |= 1U << i;
  return wide;
}

template <class Row, std::size_t... read>
Enqueue prepare_map(const Row& row, DType dtype, std::int64_t count, std::index_sequence<read...>) {
  return for_element(dtype, [&]<class T>(As<T>) -> Enqueue {
    return [row, count](Tensors operands, Workspace, Stream stream) {
      enqueue_map(map_tensors<T, wide_operands<Row>()>(count, {operands[read].data...},
                                                       {operands.back().data}),
                  ElementBody<Row>{row}, stream);
    };
  });
}

template <class Row>
Enqueue prepare_elementwise(const Row& row, const Problem& problem) {
  using Body = ElementBody<Row>;
  const std::int64_t count = problem.shapes[0].elements();
  if constexpr (Row::rule.takes_any_element) {
    const auto as_it_is = [&]<class T>(As<T>) -> Enqueue {
      return [row, count](Tensors operands, Workspace, Stream stream) {
        launch(map_as_it_is<Row, T>, stepping_launch(count, map_threads, map_threads), stream, row,
               reads_of<T, Body::reads>(operands), count, operands.back().as<T>());
      };
    };
    // Sums mod 2^64 are the same bits with and without sign.
    if (problem.dtype == DType::i64 || problem.dtype == DType::u64)
      return as_it_is(As<std::uint64_t>{});
    if (problem.dtype == DType::f64) return as_it_is(As<double>{});
  }
  return prepare_map(row, storage_of(op::is_wide(row), problem.dtype), count,
                     std::make_index_sequence<Row::rule.num_reads>());
}

/// Rounds many tensors in one launch.
Enqueue prepare_elementwise(const op::Cast&, const Problem& problem) {
  return prepare_cast(problem);
}

template <class T>
__global__ void fill(T value, std::int64_t count, T* x) {
  begin_kernel();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) x[i] = value;
}

/// y[b,:] = x[b,index,:]; a block for each sample.
template <class T>
__global__ void take_position(const T* x_BTC, const std::int32_t* index, std::int64_t time,
                              std::int64_t channels, T* y_BC) {
  begin_kernel();
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

Enqueue prepare_chain(const BiasGelu& chain, const Problem& problem) {
  const std::int64_t count = problem.shapes[chain.x].elements(),
                     columns = problem.shapes[chain.bias].elements();
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      enqueue_map(map_tensors<T>(count, {operands[chain.x].as<T>()},
                                 {operands[chain.sum].as<T>(), operands[chain.y].as<T>()}),
                  BiasGeluBody<T>{{operands[chain.bias].as<T>(), columns}}, stream);
    };
  });
}

#define FOURFOLD_ROW(Row, work)                                     \
  Enqueue prepare_row(const op::Row& row, const Problem& problem) { \
    return prepare_elementwise(row, problem);                       \
  }
FOURFOLD_ELEMENTWISE_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW

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

Enqueue prepare_row(const op::TakePosition& op, const Problem& problem) {
  const Shape x = problem.shapes[0];
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(x[0]);
  shape.threads = map_threads;
  return for_element(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Enqueue {
    return [=, time = x[1], channels = x[2]](Tensors operands, Workspace, Stream stream) {
      launch(take_position<T>, shape, stream, operands[0].as<T>(), operands[1].as<std::int32_t>(),
             time, channels, operands[2].as<T>());
    };
  });
}

}  // namespace fourfold::kernels::cuda
