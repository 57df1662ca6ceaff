// The second stage of sums over rows: what blocks have summed over stretches of rows is added in
// order.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/reduce.cuh"

namespace fourfold::kernels::cuda {

template <int sums>
struct ColumnOutputs {
  float* sum[sums];  // null where it is not wanted
  bool accumulate[sums];

  /// What the sum of a column begins with.
  __device__ float first(int i, std::int64_t column) const {
    return accumulate[i] ? sum[i][column] : 0.F;
  }
};

inline constexpr int stretches_at_once = 16;  // warps of a block

/// Numbers of stretches: [i][stretch][column] for sum i; with `shared` the same for all sums.
struct StretchParts {
  const float* parts;
  std::int64_t columns, stretches;
  bool shared = false;

  __device__ float at(int i, std::int64_t stretch, std::int64_t column) const {
    return parts[((shared ? 0 : i * stretches) + stretch) * columns + column];
  }
};

/// sum[i][column] (+)= sum over stretches of its parts. A lane has a column of one of the sums, a
/// warp every `stretches_at_once`th stretch of it.
template <int sums>
__global__ void add_stretches(StretchParts of, ColumnOutputs<sums> outputs) {
  begin_kernel();
  __shared__ float of_warps[stretches_at_once][warp_lanes];
  const unsigned groups = gridDim.x / sums;
  const int i = static_cast<int>(blockIdx.x / groups);
  float* const out = outputs.sum[i];
  if (out == nullptr) return;
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x % groups) * warp_lanes + lane_index();
  float sum = 0;
  if (column < of.columns) {
#pragma unroll 8
    for (std::int64_t stretch = warp_index(); stretch < of.stretches; stretch += stretches_at_once)
      sum += of.at(i, stretch, column);
  }
  of_warps[warp_index()][lane_index()] = sum;
  __syncthreads();
  if (warp_index() != 0 || column >= of.columns) return;
  float total = outputs.first(i, column);
  for (int warp = 0; warp < stretches_at_once; ++warp) total += of_warps[warp][lane_index()];
  out[column] = total;
}

template <int sums>
void enqueue_stretches(const StretchParts& parts, const ColumnOutputs<sums>& outputs,
                       Stream stream) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(sums * ceil_divide(parts.columns, warp_lanes));
  shape.threads = stretches_at_once * warp_lanes;
  launch(add_stretches<sums>, shape, stream, parts, outputs);
}

}  // namespace fourfold::kernels::cuda
