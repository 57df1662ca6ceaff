// All that kernels and launchers use of CUDA: launches, shared memory, rounding to bf16 and the
// tensor cores. Not arithmetic of any op. tests/support/cuda_emulation has a header of this name
// that stands in for it where kernels are run on the CPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/check.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch_shape.h"

namespace fourfold::kernels::cuda {

/// Enqueues kernel<<<shape>>>(arguments...); nothing where there are no blocks.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, Stream stream,
            std::type_identity_t<Parameters>... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  static_assert((sizeof(Parameters) + ... + 0) <= most_parameter_bytes);
  if (shape.is_empty()) return;
  void* pointers[] = {&arguments...};
  check_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                              dim3(shape.blocks_x, shape.blocks_y, shape.blocks_z),
                              dim3(shape.threads), pointers, shape.shared_bytes, stream),
             "cudaLaunchKernel");
}

/// To be called once for a kernel that is launched with more than 48 KiB of shared memory.
template <class... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), std::size_t bytes) {
  check_cuda(
      cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                           cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
      "cudaFuncSetAttribute");
}

inline void copy_to_host(const void* from, std::size_t bytes, void* to, Stream stream) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}
inline void copy_to_device(const void* from, std::size_t bytes, void* to, Stream stream) {
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

/// The shared memory of the launch, LaunchShape::shared_bytes.
__device__ inline std::byte* dynamic_shared() {
  extern __shared__ __align__(16) std::byte memory[];
  return memory;
}

/// The bits of a float rounded to bf16, to nearest even; NaN stays NaN.
__device__ inline std::uint16_t bf16_bits(float value) {
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

/// sum (16, 8) += a (16, 16) b (16, 8) by one warp on its tensor cores, bf16 in, f32 out: PTX
/// mma.m16n8k16. With group = lane / 4 and pair = 2 (lane % 4), a lane holds
///   a[0..3]   rows group, group + 8, group, group + 8; columns pair, pair + 1 (+ 8 in a[2], a[3])
///   b[0..1]   rows pair, pair + 1 (+ 8 in b[1]); column group
///   sum[0..3] rows group, group, group + 8, group + 8; columns pair, pair + 1, pair, pair + 1
/// with two bf16 in each word, the lower index in the lower half.
__device__ inline void multiply_bf16_16x8x16(float (&sum)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
  // Volatile: all lanes of a warp execute it together, so it must not move into a branch.
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace fourfold::kernels::cuda
