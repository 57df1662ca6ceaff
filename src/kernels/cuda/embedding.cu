// Token and position embeddings and their gradients on the device; op::Embedding ...
// op::PositionsGradient say what they compute. B batch, T time, C channels, N = B T tokens.
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr unsigned row_threads = 128;
constexpr int row_warps = row_threads / warp_lanes;

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
  const std::int64_t token = blockIdx.x;
  const std::int64_t row = tokens_N[token] - first_row;
  const bool here = row >= 0 && row < rows;
  copy_row(here ? table_VC + row * channels : nullptr, channels, aligned, y_NC + token * channels);
}

/// Finds tokens of one row among stretches of row_threads tokens. All threads of a block call it.
class Matches {
 public:
  __device__ Matches(const std::int32_t* tokens, std::int32_t token, unsigned* ballots)
      : tokens_(tokens), token_(token), ballots_(ballots) {}

  /// Which tokens of [first, min(first + row_threads, last)) match, as ballots of the warps.
  __device__ bool look(std::int64_t first, std::int64_t last) {
    const std::int64_t mine = first + threadIdx.x;
    const unsigned ballot = __ballot_sync(all_lanes, mine < last && tokens_[mine] == token_);
    __syncthreads();  // the ballots of the last call are no longer read
    if (lane_index() == 0) ballots_[warp_index()] = ballot;
    __syncthreads();
    unsigned any = 0;
    for (int warp = 0; warp < row_warps; ++warp) any |= ballots_[warp];
    return any != 0;
  }

 private:
  const std::int32_t* tokens_;
  std::int32_t token_;
  unsigned* ballots_;
};

/// A block for each token; the first token of each row adds up the gradients of all of them, in
/// order. No sorting: comparing every token with those before it reads N^2 / 2 tokens from the
/// cache, which is little beside the gradients.
template <class T>
__global__ void embedding_gradient(const std::int32_t* tokens_N, const T* y_grad_NC,
                                   std::int64_t count, std::int64_t rows, std::int64_t channels,
                                   std::int64_t first_row, bool accumulate, float* table_grad_VC) {
  __shared__ unsigned ballots[row_warps];
  const std::int64_t own = blockIdx.x;
  const std::int64_t row = tokens_N[own] - first_row;
  if (row < 0 || row >= rows) return;  // all threads alike
  Matches matches(tokens_N, tokens_N[own], ballots);
  for (std::int64_t first = 0; first < own; first += row_threads)
    if (matches.look(first, own)) return;

  float* const out = table_grad_VC + row * channels;
  for (std::int64_t channel = threadIdx.x; channel - threadIdx.x < channels;
       channel += row_threads) {
    const bool inside = channel < channels;
    float sum = accumulate && inside ? out[channel] : 0.F;
    for (std::int64_t first = own; first < count; first += row_threads) {
      if (!matches.look(first, count)) continue;
      for (int warp = 0; warp < row_warps; ++warp)
        for (unsigned left = ballots[warp]; left != 0; left &= left - 1) {
          const std::int64_t token = first + warp * warp_lanes + __ffs(left) - 1;
          if (inside) sum += to_float(y_grad_NC[token * channels + channel]);
        }
    }
    if (inside) out[channel] = sum;
  }
}

__global__ void zero(std::int64_t count, float* x) {
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

/// A block for each row of the table; without documents it is touched by one token of each sample.
template <class T>
__global__ void positions_gradient(const T* y_grad_BTC, std::int64_t batch, Positions positions,
                                   bool accumulate, float* table_grad_PC) {
  const std::int64_t position = blockIdx.x, time = positions.time, channels = positions.channels;
  const std::int64_t only = position - positions.first;
  const bool scan = positions.document_starts != nullptr;
  for (std::int64_t channel = threadIdx.x; channel < channels; channel += blockDim.x) {
    float& out = table_grad_PC[position * channels + channel];
    float sum = accumulate ? out : 0.F;
    for (std::int64_t sample = 0; sample < batch; ++sample) {
      const std::int64_t begin = scan ? 0 : only, end = scan ? time : only + 1;
      if (begin < 0 || end > time) continue;
      for (std::int64_t t = begin; t < end; ++t)
        if (positions.row(sample * time + t) == position)
          sum += to_float(y_grad_BTC[(sample * time + t) * channels + channel]);
    }
    out = sum;
  }
}

LaunchShape row_launch(std::int64_t rows) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(rows);
  shape.threads = row_threads;
  return shape;
}

}  // namespace

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
  const std::int64_t tokens = problem.shapes[0].elements(), channels = problem.shapes[1].back();
  return for_element(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Enqueue {
    return [=](Tensors operands, Workspace, Stream stream) {
      const std::int64_t elements = op.rows * channels;
      if (!op.accumulate)
        launch(zero, stepping_launch(elements, map_threads, map_threads), stream, elements,
               operands[2].as<float>());
      launch(embedding_gradient<T>, row_launch(tokens), stream, operands[0].as<std::int32_t>(),
             operands[1].as<T>(), tokens, op.rows, channels, op.first_row, op.accumulate,
             operands[2].as<float>());
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
    return [=](Tensors operands, Workspace, Stream stream) {
      const Positions positions{y_grad[1], y_grad[2], op.first, nullptr,
                                op.documents ? operands[1].as<std::int32_t>() : nullptr};
      launch(positions_gradient<T>, row_launch(op.rows), stream, operands[0].as<T>(), y_grad[0],
             positions, op.accumulate, operands[op.documents ? 2 : 1].as<float>());
    };
  });
}

}  // namespace fourfold::kernels::cuda
