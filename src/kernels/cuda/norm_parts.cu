// Layer norm where ranks share the channels, on the device; op::LayerNormMoments ...
// op::LayerNormGradientApply say what they compute. R rows, C local channels, P parts. A warp for
// each row (and part).
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.h"
#include "kernels/norm_operands.h"

namespace fourfold::kernels::cuda {
namespace {

constexpr int rows_per_block = 4;

struct NormSizes {
  std::int64_t rows, channels;
};
NormSizes norm_sizes(const Problem& problem) {
  const Shape& x = problem.shapes[0];
  return {x.elements(0, x.rank() - 1), x.back()};
}

LaunchShape warps_launch(std::int64_t rows) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(ceil_divide(rows, rows_per_block));
  shape.threads = rows_per_block * warp_lanes;
  return shape;
}

__device__ std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * rows_per_block + warp_index();
}

/// What the sum of distances from the computed mean leaves of it corrects both moments.
template <class T>
__global__ void moments(const T* x_RC, NormSizes sizes, std::int64_t width, float* moments_PR2) {
  begin_kernel();
  const std::int64_t parts = sizes.channels / width;
  const std::int64_t row = row_of_warp() / parts, part = row_of_warp() % parts;
  if (row >= sizes.rows) return;
  const T* const x = x_RC + row * sizes.channels + part * width;
  const auto count = static_cast<float>(width);
  float sum = 0, distances = 0, squares = 0;
  for (std::int64_t c = lane_index(); c < width; c += warp_lanes) sum += to_float(x[c]);
  const float mean = warp_sum(sum) / count;
  for (std::int64_t c = lane_index(); c < width; c += warp_lanes) {
    const float centred = to_float(x[c]) - mean;
    distances += centred;
    squares += centred * centred;
  }
  distances = warp_sum(distances);
  const float corrected = warp_sum(squares) - distances * distances / count;
  if (lane_index() != 0) return;
  float* const out = moments_PR2 + (part * sizes.rows + row) * 2;
  out[0] = mean + distances / count;
  out[1] = corrected < 0 ? 0 : corrected;  // a NaN stays
}

/// The sum of the squares of each part, for a norm that is not centred.
template <class T>
__global__ void squares_of_parts(const T* x_RC, NormSizes sizes, std::int64_t width,
                                 float* squares_PR) {
  begin_kernel();
  const std::int64_t parts = sizes.channels / width;
  const std::int64_t row = row_of_warp() / parts, part = row_of_warp() % parts;
  if (row >= sizes.rows) return;
  const T* const x = x_RC + row * sizes.channels + part * width;
  float squares = 0;
  for (std::int64_t c = lane_index(); c < width; c += warp_lanes)
    squares += to_float(x[c]) * to_float(x[c]);
  squares = warp_sum(squares);
  if (lane_index() == 0) squares_PR[part * sizes.rows + row] = squares;
}

struct MergeSizes {
  std::int64_t rows, parts, width;
  float epsilon;
};

/// Statistics of all rows from the moments of parts of equal size n: joining the (k+1)-th moves the
/// mean by delta / (k+1) and adds delta^2 n k / (k+1) to the squares. A thread for each row.
__global__ void merge_moments(const float* moments_PR2, MergeSizes sizes, float* mean_R,
                              float* rstd_R) {
  begin_kernel();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= sizes.rows) return;
  const auto part_width = static_cast<float>(sizes.width / sizes.parts);
  float mean = 0, squares = 0;
  for (std::int64_t part = 0; part < sizes.parts; ++part) {
    const float* const next = moments_PR2 + (part * sizes.rows + row) * 2;
    const auto before = static_cast<float>(part);
    const float delta = next[0] - mean;
    mean += delta / (before + 1);
    squares += next[1] + delta * delta * (part_width * before / (before + 1));
  }
  mean_R[row] = mean;
  rstd_R[row] = 1 / sqrtf(squares / static_cast<float>(sizes.width) + sizes.epsilon);
}

/// Those of a norm that is not centred, whose squares add up.
__global__ void merge_squares(const float* squares_PR, MergeSizes sizes, float* rstd_R) {
  begin_kernel();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= sizes.rows) return;
  float squares = 0;
  for (std::int64_t part = 0; part < sizes.parts; ++part)
    squares += squares_PR[part * sizes.rows + row];
  rstd_R[row] = 1 / sqrtf(squares / static_cast<float>(sizes.width) + sizes.epsilon);
}

__device__ float mean_at(const float* mean_R, std::int64_t row) {
  return mean_R == nullptr ? 0 : mean_R[row];
}

/// y = (x - mean) rstd gain + bias.
template <class T>
struct ApplyBody {
  std::int64_t channels, rows;
  const T *gain_C, *bias_C;      // bias_C may be null
  const float *mean_R, *rstd_R;  // mean_R may be null, here and below
  template <int size>
  __device__ void operator()(std::int64_t first, const float (&in)[1][size],
                             float (&out)[1][size]) const {
    std::int64_t row = first / channels, c = first % channels;
    for (int i = 0; i < size && row < rows; ++i) {
      const float bias = bias_C == nullptr ? 0 : to_float(bias_C[c]);
      out[0][i] = (in[0][i] - mean_at(mean_R, row)) * rstd_R[row] * to_float(gain_C[c]) + bias;
      if (++c == channels) c = 0, ++row;
    }
  }
};

/// What both gradient ops read, x as X. With n = (x - mean) rstd and d = y_grad gain:
///   x_grad = rstd (d - average(d) - n average(d n)).
template <class X, class T>
struct Gradient {
  const X* x_RC;
  const T *gain_C, *y_grad_RC;
  const float *mean_R, *rstd_R;

  Gradient(Tensors operands, const NormGradientOperands& at)
      : x_RC(operands[0].as<X>()),
        gain_C(operands[1].as<T>()),
        y_grad_RC(operands[at.y_grad].as<T>()),
        mean_R(optional_operand<float>(operands, at.mean)),
        rstd_R(operands[at.rstd].as<float>()) {}
};

template <class X, class T>
__global__ void gradient_sums(Gradient<X, T> of, NormSizes sizes, float* sums) {
  begin_kernel();
  const std::int64_t row = row_of_warp();
  if (row >= sizes.rows) return;
  const float mean = mean_at(of.mean_R, row);
  float sum = 0, sum_normal = 0;
  for (std::int64_t c = lane_index(); c < sizes.channels; c += warp_lanes) {
    const std::int64_t i = row * sizes.channels + c;
    const float scaled = to_float(of.y_grad_RC[i]) * to_float(of.gain_C[c]);
    sum += scaled;
    sum_normal += scaled * ((to_float(of.x_RC[i]) - mean) * of.rstd_R[row]);
  }
  sum = warp_sum(sum);
  sum_normal = warp_sum(sum_normal);
  if (lane_index() != 0) return;
  if (of.mean_R == nullptr) {
    sums[row] = sum_normal;
  } else {
    sums[2 * row] = sum;
    sums[2 * row + 1] = sum_normal;
  }
}

/// in: x, y_grad.
template <class T>
struct GradientApplyBody {
  std::int64_t channels, rows;
  float width;
  const T* gain_C;
  const float *mean_R, *rstd_R, *sums;
  template <int size>
  __device__ void operator()(std::int64_t first, const float (&in)[2][size],
                             float (&out)[1][size]) const {
    std::int64_t row = first / channels, c = first % channels;
    for (int i = 0; i < size && row < rows; ++i) {
      const bool centred = mean_R != nullptr;
      const float normal = (in[0][i] - mean_at(mean_R, row)) * rstd_R[row];
      const float scaled = in[1][i] * to_float(gain_C[c]);
      const float sum = centred ? sums[2 * row] : 0,
                  sum_normal = centred ? sums[2 * row + 1] : sums[row];
      out[0][i] = rstd_R[row] * (scaled - sum / width - normal * (sum_normal / width));
      if (++c == channels) c = 0, ++row;
    }
  }
};

}  // namespace

Enqueue prepare_row(const op::LayerNormMoments& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem);
  return for_element(storage_of(op.wide, problem.dtype), [&]<class T>(As<T>) -> Enqueue {
    return [sizes, parts = op.parts, centred = op.centred](Tensors operands, Workspace,
                                                           Stream stream) {
      launch(centred ? moments<T> : squares_of_parts<T>, warps_launch(sizes.rows * parts), stream,
             operands[0].as<T>(), sizes, sizes.channels / parts, operands[1].as<float>());
    };
  });
}

Enqueue prepare_row(const op::LayerNormApply& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem);
  const MergeSizes merge{sizes.rows, problem.shapes[1][0], op.width,
                         static_cast<float>(op.epsilon)};
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, merge, at = NormOperands(op, 2), wide = op.wide](Tensors operands, Workspace,
                                                                    Stream stream) {
      float* mean_R = optional_operand<float>(operands, at.mean);
      float* rstd_R = operands[at.rstd].as<float>();
      LaunchShape shape;
      shape.threads = map_threads;
      shape.blocks_x = static_cast<unsigned>(ceil_divide(sizes.rows, map_threads));
      const float* moments_PR2 = operands[1].as<float>();
      if (mean_R == nullptr)
        launch(merge_squares, shape, stream, moments_PR2, merge, rstd_R);
      else
        launch(merge_moments, shape, stream, moments_PR2, merge, mean_R, rstd_R);
      const std::int64_t count = sizes.rows * sizes.channels;
      const ApplyBody<T> body{sizes.channels,
                              sizes.rows,
                              operands[at.gain].as<T>(),
                              optional_operand<T>(operands, at.bias),
                              mean_R,
                              rstd_R};
      if (wide)
        enqueue_map(map_tensors<T, 0b1>(count, {operands[0].data}, {operands[at.y].data}), body,
                    stream);
      else
        enqueue_map(map_tensors<T>(count, {operands[0].data}, {operands[at.y].data}), body, stream);
    };
  });
}

Enqueue prepare_row(const op::LayerNormGradientSums& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return for_wide<T>(op.wide, [&]<class X>(As<X>) -> Enqueue {
      return [sizes, at = NormGradientOperands(op.centred, 2)](Tensors operands, Workspace,
                                                               Stream stream) {
        launch(gradient_sums<X, T>, warps_launch(sizes.rows), stream, Gradient<X, T>(operands, at),
               sizes, operands[at.next].as<float>());
      };
    });
  });
}

Enqueue prepare_row(const op::LayerNormGradientApply& op, const Problem& problem) {
  const NormSizes sizes = norm_sizes(problem);
  return for_element(problem.dtype, [&]<class T>(As<T>) -> Enqueue {
    return [sizes, op, at = NormGradientOperands(op.centred, 2)](Tensors operands, Workspace,
                                                                 Stream stream) {
      const GradientApplyBody<T> body{sizes.channels,
                                      sizes.rows,
                                      static_cast<float>(op.width),
                                      operands[1].as<T>(),
                                      optional_operand<float>(operands, at.mean),
                                      operands[at.rstd].as<float>(),
                                      operands[at.next].as<float>()};
      void* const y_grad = operands[at.y_grad].data;
      void* const x_grad = operands[at.next + 1].data;
      const std::int64_t count = sizes.rows * sizes.channels;
      if (op.wide)
        enqueue_map(map_tensors<T, 0b101>(count, {operands[0].data, y_grad}, {x_grad}), body,
                    stream);
      else
        enqueue_map(map_tensors<T>(count, {operands[0].data, y_grad}, {x_grad}), body, stream);
    };
  });
}

}  // namespace fourfold::kernels::cuda
