// Token and position embeddings and their gradients on the device; op::Embedding ...
// op::PositionsGradient say what they compute. B batch, T time, C channels, N = B T tokens.
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sums_by_row.cuh"

namespace fourfold::kernels::cuda {
namespace {

constexpr unsigned row_threads = 128;
constexpr std::int64_t max_rows = std::int64_t{1} << 31;

/// Copies channels, 16 bytes at a time where it can; a null `from` gives zeros.
template <class T>
__device__ void copy_row(const T* from, std::int64_t channels, bool aligned, T* to) {
  constexpr int size = pack_size<T>;
  for (std::int64_t first = threadIdx.x * size; first < channels;
       first += static_cast<std::int64_t>(row_threads) * size) {
    const std::int64_t count = channels - first;
    const bool whole = aligned && count >= size;
    float values[size] = {};
    if (from != nullptr) load_pack<T>(from + first, whole, count, values);
    store_pack<T>(values, whole, count, to + first);
  }
}

/// A block for each token.
template <class T>
__global__ void embedding(const std::int32_t* tokens_N, const T* table_VC, std::int64_t rows,
                          std::int64_t channels, std::int64_t first_row, bool aligned, T* y_NC) {
  begin_kernel();
  const std::int64_t token = blockIdx.x;
  const std::int64_t row = tokens_N[token] - first_row;
  const bool here = row >= 0 && row < rows;
  copy_row(here ? table_VC + row * channels : nullptr, channels, aligned, y_NC + token * channels);
}

/// The table's row of each token; `rows` where the table does not have it.
struct TokenRows {
  const std::int32_t* tokens_N;
  std::int64_t first_row, rows;
  __device__ RowPair operator()(std::int64_t i) const {
    const std::int64_t row = tokens_N[i] - first_row;
    return {static_cast<unsigned>(row >= 0 && row < rows ? row : rows), static_cast<unsigned>(i)};
  }
};

__global__ void zero(std::int64_t count, float* x) {
  begin_kernel();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) x[i] = 0;
}

/// Where the positions of a text's tokens lie in the table.
struct Positions {
  std::int64_t time, channels, first;
  const std::int32_t* start;            // of a cached text, or null
  const std::int32_t* document_starts;  // (B, T), or null

  /// The table's row of token number bt.
  __device__ std::int64_t row(std::int64_t bt) const {
    std::int64_t row = first + bt % time;
    if (start != nullptr) row += *start;
    if (document_starts != nullptr) row -= document_starts[bt];
    return row;
  }
};

template <class T>
struct AddPositionsBody {
  Positions positions;
  std::int64_t count;
  const T* table_PC;
  template <int size>
  __device__ void operator()(std::int64_t first, const float (&in)[1][size],
                             float (&out)[1][size]) const {
    std::int64_t token = first / positions.channels, channel = first % positions.channels;
    const T* row = table_PC + positions.row(token) * positions.channels;
    for (int i = 0; i < size; ++i) {
      out[0][i] = in[0][i] + to_float(row[channel]);
      if (++channel == positions.channels && first + i + 1 < count) {
        channel = 0;
        row = table_PC + positions.row(++token) * positions.channels;
      } else if (channel == positions.channels) {
        channel = 0;
      }
    }
  }
};

/// Likewise for the positions of tokens.
struct PositionRows {
  Positions positions;
  std::int64_t rows;
  __device__ RowPair operator()(std::int64_t i) const {
    const std::int64_t row = positions.row(i);
    return {static_cast<unsigned>(row >= 0 && row < rows ? row : rows), static_cast<unsigned>(i)};
  }
};

/// A block of threads computes each row of the table. Samples hold one document each, so that one
/// token of each sample touches a row.
template <class T>
__global__ void positions_gradient(const T* y_grad_BTC, std::int64_t batch, Positions positions,
                                   bool accumulate, float* table_grad_PC) {
  begin_kernel();
  const std::int64_t position = blockIdx.x, time = positions.time, channels = positions.channels;
  const std::int64_t t = position - positions.first;
  const bool is_touched = t >= 0 && t < time;
  for (std::int64_t channel = threadIdx.x; channel < channels; channel += blockDim.x) {
    float& out = table_grad_PC[position * channels + channel];
    float sum = accumulate ? out : 0.F;
    for (std::int64_t sample = 0; is_touched && sample < batch; ++sample)
      sum += to_float(y_grad_BTC[(sample * time + t) * channels + channel]);
    out = sum;
  }
}

LaunchShape row_launch(std::int64_t rows) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(rows);
  shape.threads = row_threads;
  return shape;
}

RowSumSizes row_sums(const Shape& y_grad, std::int64_t rows) {
  require(y_grad.elements() / y_grad.back() < max_rows && rows < max_rows,
          "gradients of tables have fewer than 2^31 rows and tokens");
  return {y_grad.elements() / y_grad.back(), rows, y_grad.back()};
}

void enqueue_zero(const RowSumSizes& sizes, float* table, Stream stream) {
  const std::int64_t elements = sizes.rows * sizes.channels;
  launch(zero, stepping_launch(elements, map_threads, map_threads), stream, elements, table);
}

}  // namespace

std::int64_t workspace_bytes(const op::EmbeddingGradient& op, const Problem& problem) {
  return row_sums(problem.shapes[1], op.rows).workspace_bytes();
}
std::int64_t workspace_bytes(const op::PositionsGradient& op, const Problem& problem) {
  return op.documents ? row_sums(problem.shapes[0], op.rows).workspace_bytes() : 0;
}

Enqueue prepare_row(const op::Embedding& op, const Problem& problem) {
  const std::int64_t tokens = problem.shapes[0].elements(), rows = problem.shapes[1][0],
                     channels = problem.shapes[1][1];
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, first_row = op.first_row](Tensors operands, Workspace, Stream stream) {
      const bool aligned =
          are_aligned(operands[1].data, operands[2].data) && channels % pack_size<T> == 0;
      launch(embedding<T>, row_launch(tokens), stream, operands[0].as<std::int32_t>(),
             operands[1].as<T>(), rows, channels, first_row, aligned, operands[2].as<T>());
    };
  });
}

Enqueue prepare_row(const op::EmbeddingGradient& op, const Problem& problem) {
  return for_element(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Enqueue {
    return [=, sizes = row_sums(problem.shapes[1], op.rows)](Tensors operands, Workspace workspace,
                                                             Stream stream) {
      auto* const table = operands[2].as<float>();
      if (!op.accumulate) enqueue_zero(sizes, table, stream);
      enqueue_sums_by_row<T>(TokenRows{operands[0].as<std::int32_t>(), op.first_row, op.rows},
                             sizes, op.accumulate, operands[1].as<T>(), table, workspace, stream);
    };
  });
}

Enqueue prepare_row(const op::AddPositions& op, const Problem& problem) {
  const Shape x = problem.shapes[0];
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      const Positions positions{x[1], x[2], op.first,
                                op.cached ? operands[2].as<std::int32_t>() : nullptr,
                                op.documents ? operands[2].as<std::int32_t>() : nullptr};
      const std::size_t y = op.cached || op.documents ? 3 : 2;
      const AddPositionsBody<T> body{positions, x.elements(), operands[1].as<T>()};
      if (op.wide)
        enqueue_map(map_tensors<T, 0b10>(x.elements(), {operands[0].data}, {operands[y].data}),
                    body, stream);
      else
        enqueue_map(map_tensors<T>(x.elements(), {operands[0].data}, {operands[y].data}), body,
                    stream);
    };
  });
}

Enqueue prepare_row(const op::PositionsGradient& op, const Problem& problem) {
  const Shape y_grad = problem.shapes[0];
  return for_element(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace workspace, Stream stream) {
      const Positions positions{y_grad[1], y_grad[2], op.first, nullptr,
                                op.documents ? operands[1].as<std::int32_t>() : nullptr};
      auto* const table = operands[op.documents ? 2 : 1].as<float>();
      if (!op.documents) {
        launch(positions_gradient<T>, row_launch(op.rows), stream, operands[0].as<T>(), y_grad[0],
               positions, op.accumulate, table);
        return;
      }
      const RowSumSizes sizes = row_sums(y_grad, op.rows);
      if (!op.accumulate) enqueue_zero(sizes, table, stream);
      enqueue_sums_by_row<T>(PositionRows{positions, op.rows}, sizes, op.accumulate,
                             operands[0].as<T>(), table, workspace, stream);
    };
  });
}

}  // namespace fourfold::kernels::cuda
