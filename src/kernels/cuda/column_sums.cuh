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
};

inline constexpr int stretches_at_once = 16;  // warps of a block

/// sum[i][column] (+)= sum over stretches of parts[i][stretch][column]. A lane has a column of one
/// of the sums, a warp every `stretches_at_once`th stretch of it.
template <int sums>
__global__ void add_stretches(const float* parts, std::int64_t columns, std::int64_t stretches,
                              ColumnOutputs<sums> outputs) {
  begin_kernel();
  __shared__ float of_warps[stretches_at_once][warp_lanes];
  const unsigned groups = gridDim.x / sums, i = blockIdx.x / groups;
  float* const out = outputs.sum[i];
  if (out == nullptr) return;
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x % groups) * warp_lanes + lane_index();
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t stretch = warp_index(); stretch < stretches; stretch += stretches_at_once)
      sum += parts[(i * stretches + stretch) * columns + column];
  }
  of_warps[warp_index()][lane_index()] = sum;
  __syncthreads();
  if (warp_index() != 0 || column >= columns) return;
  float total = outputs.accumulate[i] ? out[column] : 0.F;
  for (int warp = 0; warp < stretches_at_once; ++warp) total += of_warps[warp][lane_index()];
  out[column] = total;
}

template <int sums>
void enqueue_stretches(const float* parts, std::int64_t columns, std::int64_t stretches,
                       const ColumnOutputs<sums>& outputs, Stream stream) {
  LaunchShape shape;
  shape.blocks_x = static_cast<unsigned>(sums * ceil_divide(columns, warp_lanes));
  shape.threads = stretches_at_once * warp_lanes;
  launch(add_stretches<sums>, shape, stream, parts, columns, stretches, outputs);
}

}  // namespace fourfold::kernels::cuda
