// All that kernels and launchers use of CUDA: launches, shared memory, rounding to bf16 and the
// tensor cores. Not arithmetic of any op. tests/support/cuda_emulation has a header of this name
// that stands in for it where kernels are run on the CPU.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launch_shape.h"

namespace fourfold::kernels::cuda {

/// Enqueues kernel<<<shape>>>(arguments...), which begins with begin_kernel(); nothing where there
/// are no blocks.
template <class... Parameters>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, Stream stream,
            std::type_identity_t<Parameters>... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  static_assert((sizeof(Parameters) + ... + 0) <= most_parameter_bytes);
  if (shape.is_empty()) return;
  void* pointers[] = {&arguments...};
  launch_kernel(reinterpret_cast<const void*>(kernel), shape, stream, pointers);
}

/// The first statement of every kernel. Its block may have taken its place before the kernel ahead
/// of it on the stream has ended (launch_kernel): it waits for that here, and lets the next one do
/// the same. PTX griddepcontrol; nothing where the device does not begin kernels early.
__device__ inline void begin_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// To be called once for a kernel that is launched with more than 48 KiB of shared memory.
template <class... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), std::size_t bytes) {
  allow_shared_bytes(reinterpret_cast<const void*>(kernel), bytes);
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

/// Waits for the `warps` warps of a block that come to the same barrier, of which it has 15. All
/// others come to barriers of their own: in the emulation these are one.
__device__ inline void wait_for_warps(int barrier, int warps) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier + 1), "r"(warps * warp_lanes) : "memory");
}

/// 16 bytes by one access, at a multiple of 16, of global or shared memory. A struct of narrow
/// members would be stored by an access for each member.
__device__ inline void load_words(const void* from, std::uint32_t (&words)[4]) {
  const uint4 all = *static_cast<const uint4*>(from);
  words[0] = all.x, words[1] = all.y, words[2] = all.z, words[3] = all.w;
}
__device__ inline void store_words(const std::uint32_t (&words)[4], void* to) {
  *static_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}
/// Likewise 8 bytes, at a multiple of 8.
__device__ inline void store_words(const std::uint32_t (&words)[2], void* to) {
  *static_cast<uint2*>(to) = make_uint2(words[0], words[1]);
}

/// The bits of a float rounded to bf16, to nearest even; NaN stays NaN.
__device__ inline std::uint16_t bf16_bits(float value) {
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

/// Two floats rounded to bf16 in one word, `low` in the lower half.
__device__ inline std::uint32_t bf16_pair(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// 2^x, relative error 2^-22 (PTX ISA, ex2.approx); 0 below 2^-126.
__device__ inline float exp2_approximate(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

/// 1 / x, error 1 unit in the last place (PTX ISA, rcp.approx); 0 above 2^126.
__device__ inline float reciprocal_approximate(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}

/// sum (16, 8) += a (16, 16) b (16, 8) by one warp on its tensor cores, bf16 in, f32 out: PTX
/// mma.m16n8k16. With group = lane / 4 and pair = 2 (lane % 4), a lane holds
///   a[0..3]   rows group, group + 8, group, group + 8; columns pair, pair + 1 (+ 8 in a[2], a[3])
///   b0, b1    rows pair, pair + 1 (+ 8 in b1); column group
///   sum[0..3] rows group, group, group + 8, group + 8; columns pair, pair + 1, pair, pair + 1
/// with two bf16 in each word, the lower index in the lower half.
__device__ inline void multiply_bf16_16x8x16(float (&sum)[4], const std::uint32_t (&a)[4],
                                             std::uint32_t b0, std::uint32_t b1) {
  // Volatile: all lanes of a warp execute it together, so it must not move into a branch.
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8 x 8 matrices of bf16 from shared memory by one warp: PTX ldmatrix. Lane 8 m + r gives the
/// address of row r of matrix m, a multiple of 16 bytes; words[m] of a lane are elements pair and
/// pair + 1 of row `group` of matrix m.
__device__ inline void load_matrices(const BFloat16* row, std::uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}
/// As above; words[m] are elements `group` of rows pair and pair + 1.
__device__ inline void load_matrices_transposed(const BFloat16* row, std::uint32_t (&words)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// Begins to copy 4 or 16 bytes, both addresses multiples of that, from global to shared memory, or
/// zeros where nothing is there: PTX cp.async. What arrives is seen by this thread after
/// wait_for_copies, by others after a barrier after it.
template <int bytes>
__device__ void copy_async(void* shared, const void* from, bool is_there) {
  static_assert(bytes == 4 || bytes == 16);
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  const int there = is_there ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there)
                 : "memory");
}
/// The copies that this thread has begun since the last call are a group.
__device__ inline void end_copy_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits for all groups of this thread but the last `but`.
template <int but>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(but) : "memory");
}

// From compute capability 9.0 on: copies of many bytes that one thread begins, and what counts
// those that have arrived (PTX mbarrier). In the emulation TileCopies does without.

__device__ inline unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}
/// For one thread that announces bytes. To be shown to copies, then to the block by a barrier.
__device__ inline void prepare_arrivals(std::uint64_t* arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(arrivals)) : "memory");
}
__device__ inline void show_arrivals() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// The phase ends when so many bytes have arrived.
__device__ inline void expect_bytes(std::uint64_t* arrivals, unsigned bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(arrivals)),
      "r"(bytes)
      : "memory");
}
/// Addresses and bytes are multiples of 16.
__device__ inline void copy_bytes_async(void* shared, const void* from, unsigned bytes,
                                        std::uint64_t* arrivals) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(from), "r"(bytes), "r"(shared_address(arrivals))
      : "memory");
}
/// True once the phase of this parity has ended; waits a while for it.
__device__ inline bool have_arrived(std::uint64_t* arrivals, unsigned parity) {
  unsigned ended;
  asm volatile(
      "{\n.reg .pred ended;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
      "selp.u32 %0, 1, 0, ended;\n}"
      : "=r"(ended)
      : "r"(shared_address(arrivals)), "r"(parity)
      : "memory");
  return ended != 0;
}

}  // namespace fourfold::kernels::cuda
