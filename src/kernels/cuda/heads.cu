// What stands before attention, on the device: op::Rotary, op::HeadNorm and the gradient of what it
// norms. D head width. A block for each token that is turned, a warp for each vector that is
// normed.
#include <algorithm>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/document_starts.h"
#include "kernels/rotary.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr int most_pairs = 256;

/// op::Rotary as a kernel gets it.
struct RotaryTurns {
  double frequencies[most_pairs];
  double factor;
  std::int64_t first;
  int pairs, lanes;  // threads of a vector, whole warps
  bool negative;

  explicit RotaryTurns(const op::Rotary& op)
      : factor(op.factor),
        first(op.first),
        pairs(static_cast<int>(op.frequencies.size())),
        lanes(static_cast<int>(ceil_divide(pairs, warp_lanes)) * warp_lanes),
        negative(op.negative) {
    require(pairs <= most_pairs, "rotary on CUDA turns at most 256 pairs of a vector");
    std::ranges::copy(op.frequencies, frequencies);
  }
};

template <class T>
struct RotaryTensors {
  const T* qkv;
  const std::int32_t *position, *document_starts;  // or null
  T* y;                                            // may be qkv
};

constexpr int rotary_threads = 256;

/// The angle in double: that of a late position loses what its integer part takes of a float's
/// digits.
template <class T>
__global__ void __launch_bounds__(rotary_threads)
    rotary(RotaryTensors<T> of, QkvVectors sizes, RotaryTurns turns) {
  begin_kernel();
  const std::int64_t token = blockIdx.x;
  const int lane = static_cast<int>(threadIdx.x) % turns.lanes,
            team = static_cast<int>(threadIdx.x) / turns.lanes,
            teams = static_cast<int>(blockDim.x) / turns.lanes;
  if (team >= teams) return;
  const std::int64_t start = of.position == nullptr ? 0 : *of.position;
  const std::int64_t before = of.document_starts == nullptr ? 0 : of.document_starts[token];
  const auto position = static_cast<double>(start + turns.first + token % sizes.time - before);
  double sine = 0, cosine = 0;
  if (lane < turns.pairs) sincos(position * turns.frequencies[lane], &sine, &cosine);
  if (turns.negative) sine = -sine;
  const auto c = static_cast<float>(turns.factor * cosine),
             s = static_cast<float>(turns.factor * sine);
  for (std::int64_t vector = team; vector < sizes.of_token(); vector += teams) {
    const std::int64_t at = (token * sizes.of_token() + vector) * sizes.width;
    const bool stays = sizes.is_value(vector);
    if (!stays && lane < turns.pairs) {
      const float a = to_float(of.qkv[at + lane]), b = to_float(of.qkv[at + turns.pairs + lane]);
      of.y[at + lane] = from_float<T>(a * c - b * s);
      of.y[at + turns.pairs + lane] = from_float<T>(b * c + a * s);
    }
    if (of.y == of.qkv) continue;
    for (std::int64_t d = (stays ? 0 : 2 * turns.pairs) + lane; d < sizes.width; d += turns.lanes)
      of.y[at + d] = of.qkv[at + d];
  }
}

constexpr int vectors_per_block = 4;

LaunchShape vectors_launch(const QkvVectors& sizes) {
  LaunchShape shape;
  shape.blocks_x =
      static_cast<unsigned>(ceil_divide(sizes.tokens() * sizes.of_token(), vectors_per_block));
  shape.threads = vectors_per_block * warp_lanes;
  return shape;
}
/// May lie after the last one.
__device__ std::int64_t vector_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * vectors_per_block + warp_index();
}

template <class T>
struct HeadGains {
  const T *q_gain_D, *k_gain_D;
  __device__ const T* of(const QkvVectors& sizes, std::int64_t vector) const {
    return sizes.is_key(vector) ? k_gain_D : q_gain_D;
  }
};

template <class T>
__global__ void head_norm(const T* qkv, HeadGains<T> gains, QkvVectors sizes, float epsilon, T* y,
                          float* rstd) {
  begin_kernel();
  const std::int64_t vector = vector_of_warp(), at = vector * sizes.width;
  if (vector >= sizes.tokens() * sizes.of_token()) return;
  if (sizes.is_value(vector)) {
    for (std::int64_t d = lane_index(); d < sizes.width; d += warp_lanes) y[at + d] = qkv[at + d];
    return;
  }
  float squares = 0;
  for (std::int64_t d = lane_index(); d < sizes.width; d += warp_lanes)
    squares += to_float(qkv[at + d]) * to_float(qkv[at + d]);
  const float of_vector = 1 / sqrtf(warp_sum(squares) / static_cast<float>(sizes.width) + epsilon);
  const T* const gain = gains.of(sizes, vector);
  for (std::int64_t d = lane_index(); d < sizes.width; d += warp_lanes)
    y[at + d] = from_float<T>(to_float(qkv[at + d]) * of_vector * to_float(gain[d]));
  if (lane_index() == 0) rstd[sizes.in_rstd(vector)] = of_vector;
}

/// With n = x rstd and d = y_grad gain:  x_grad = rstd (d - n average(d n)). qkv_grad may be
/// y_grad.
template <class T>
__global__ void head_norm_gradient(const T* qkv, HeadGains<T> gains, const float* rstd,
                                   const T* y_grad, QkvVectors sizes, T* qkv_grad) {
  begin_kernel();
  const std::int64_t vector = vector_of_warp(), at = vector * sizes.width;
  if (vector >= sizes.tokens() * sizes.of_token()) return;
  if (sizes.is_value(vector)) {
    for (std::int64_t d = lane_index(); d < sizes.width; d += warp_lanes)
      qkv_grad[at + d] = y_grad[at + d];
    return;
  }
  const T* const gain = gains.of(sizes, vector);
  const float of_vector = rstd[sizes.in_rstd(vector)];
  float sum = 0;
  for (std::int64_t d = lane_index(); d < sizes.width; d += warp_lanes)
    sum += to_float(y_grad[at + d]) * to_float(gain[d]) * (to_float(qkv[at + d]) * of_vector);
  const float average = warp_sum(sum) / static_cast<float>(sizes.width);
  for (std::int64_t d = lane_index(); d < sizes.width; d += warp_lanes) {
    const float normal = to_float(qkv[at + d]) * of_vector,
                scaled = to_float(y_grad[at + d]) * to_float(gain[d]);
    qkv_grad[at + d] = from_float<T>(of_vector * (scaled - normal * average));
  }
}

}  // namespace

Enqueue prepare_row(const op::Rotary& op, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  const RotaryTurns turns(op);
  LaunchShape shape;
  shape.threads = rotary_threads;
  shape.blocks_x = static_cast<unsigned>(sizes.tokens());
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [=, at = RotaryOperands(op), is_cached = op.positions != 0, documents = op.documents](
               Tensors operands, Workspace, Stream stream) {
      const RotaryTensors<T> of{
          operands[0].as<T>(), is_cached ? operands[1].as<std::int32_t>() : nullptr,
          documents ? operands[at.starts].as<std::int32_t>() : nullptr, operands[at.y].as<T>()};
      launch(rotary<T>, shape, stream, of, sizes, turns);
    };
  });
}

Enqueue prepare_row(const op::HeadNorm& op, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, epsilon = static_cast<float>(op.epsilon)](Tensors operands, Workspace,
                                                             Stream stream) {
      launch(head_norm<T>, vectors_launch(sizes), stream, operands[0].as<T>(),
             HeadGains<T>{operands[1].as<T>(), operands[2].as<T>()}, sizes, epsilon,
             operands[3].as<T>(), operands[4].as<float>());
    };
  });
}

Enqueue prepare_row(const op::HeadNormGradient&, const Problem& problem) {
  const QkvVectors sizes(problem.shapes[0]);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes](Tensors operands, Workspace, Stream stream) {
      launch(head_norm_gradient<T>, vectors_launch(sizes), stream, operands[0].as<T>(),
             HeadGains<T>{operands[1].as<T>(), operands[2].as<T>()}, operands[3].as<float>(),
             operands[4].as<T>(), sizes, operands[5].as<T>());
    };
  });
}

}  // namespace fourfold::kernels::cuda
