// Sums and maxima over the lanes of a warp and the warps of a block, in an order that never
// changes. All threads must call them.
#pragma once

#include "kernels/cuda/device.cuh"

namespace fourfold::kernels::cuda {

inline constexpr unsigned all_lanes = 0xffffffffU;

__device__ inline int lane_index() {
  return static_cast<int>(threadIdx.x % warp_lanes);
}
__device__ inline int warp_index() {
  return static_cast<int>(threadIdx.x / warp_lanes);
}

/// The value of the lane `distance` (a power of two) away. Structs have overloads of their own
/// beside them.
template <class Value>
__device__ Value shuffle_xor(Value value, int distance) {
  return __shfl_xor_sync(all_lanes, value, distance);
}

/// combine(a, b) must be commutative, so that all lanes get the same bits.
template <class Value, class Combine>
__device__ Value warp_reduce(Value value, Combine combine) {
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2)
    value = combine(value, shuffle_xor(value, distance));
  return value;
}
template <class Value>
__device__ Value warp_sum(Value value) {
  return warp_reduce(value, [](Value a, Value b) { return a + b; });
}

/// For blocks of `warps` warps; every thread gets the result. `shared` holds one value for each
/// warp and may be used again at once.
template <int warps, class Value, class Combine>
__device__ Value block_reduce(Value value, Value* shared, Combine combine) {
  value = warp_reduce(value, combine);
  if (lane_index() == 0) shared[warp_index()] = value;
  __syncthreads();
  value = shared[0];
  for (int warp = 1; warp < warps; ++warp) value = combine(value, shared[warp]);
  __syncthreads();
  return value;
}
template <int warps, class Value>
__device__ Value block_sum(Value value, Value* shared) {
  return block_reduce<warps>(value, shared, [](Value a, Value b) { return a + b; });
}

}  // namespace fourfold::kernels::cuda
