// Copies of tiles from global to shared memory, begun by a block while it works on tiles before.
#pragma once

#include "kernels/cuda/device.cuh"

namespace fourfold::kernels::cuda {

/// Fills places in shared memory, `stages` of them, in turn: tile k goes to stage k % stages. All
/// threads of the block make all calls. From compute capability 9.0 on one thread begins the copy
/// of all bytes at once, which takes no instruction of others; before, and on the CPU, each thread
/// copies 16 bytes at a time. Use:
///   prepare; begin, add ..., end of tiles 0 to stages - 1; then for each tile k
///   wait(k), use, a barrier of the block, and begin, add ..., end of tile k + stages, in this
///   order.
/// A tile that does not exist still takes its `end`: waits count them.
template <int stages>
class TileCopies {
 public:
  static_assert(stages >= 2);

  /// `arrivals` lies in shared memory.
  __device__ explicit TileCopies(std::uint64_t (&arrivals)[stages]) : arrivals_(arrivals) {}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __device__ void prepare() {
    if (threadIdx.x == 0) {
      for (int stage = 0; stage < stages; ++stage) prepare_arrivals(&arrivals_[stage]);
      show_arrivals();
    }
    __syncthreads();
  }
  /// `bytes` of all its parts.
  __device__ void begin(int tile, unsigned bytes) {
    if (threadIdx.x == 0) expect_bytes(&arrivals_[tile % stages], bytes);
  }
  /// A part of a tile: addresses and bytes are multiples of 16.
  __device__ void add(int tile, void* shared, const void* from, unsigned bytes) {
    if (threadIdx.x == 0) copy_bytes_async(shared, from, bytes, &arrivals_[tile % stages]);
  }
  __device__ void end() {}
  __device__ void wait(int tile) {
    while (!have_arrived(&arrivals_[tile % stages], static_cast<unsigned>(tile / stages) % 2)) {
    }
  }
#else
  __device__ void prepare() {}
  __device__ void begin(int, unsigned) {}
  __device__ void add(int, void* shared, const void* from, unsigned bytes) {
    for (unsigned at = threadIdx.x * 16; at < bytes; at += blockDim.x * 16)
      copy_async<16>(static_cast<std::byte*>(shared) + at, static_cast<const std::byte*>(from) + at,
                     true);
  }
  __device__ void end() { end_copy_group(); }
  __device__ void wait(int) {
    // Tiles to come: those of all other stages, but for the one that the caller begins next.
    wait_for_copies<stages - 2>();
    __syncthreads();
  }
#endif

 private:
  std::uint64_t* arrivals_;
};

}  // namespace fourfold::kernels::cuda
