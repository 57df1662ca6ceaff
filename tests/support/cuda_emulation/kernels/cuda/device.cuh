// Stands in for src/kernels/cuda/device.cuh where kernels are compiled as C++ and run on the CPU:
// the names of CUDA that they use, made of support/cuda_emulation.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/dtype.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch_shape.h"
#include "support/cuda_emulation/emulation.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ thread_local  // blocks run one after another on one thread
#define __launch_bounds__(...)
#define __grid_constant__

namespace fourfold::kernels::cuda {

#define threadIdx (::fourfold::cuda_emulation::place.thread)
#define blockIdx (::fourfold::cuda_emulation::place.block)
#define blockDim (::fourfold::cuda_emulation::place.threads)
#define gridDim (::fourfold::cuda_emulation::place.blocks)

using cuda_emulation::Site;

inline void __syncthreads(Site site = Site::current()) {
  cuda_emulation::wait_for_block(site);
}
inline void __syncwarp(Site site = Site::current()) {
  cuda_emulation::wait_for_warp(site);
}
template <class T>
T __shfl_xor_sync(unsigned lanes, T value, int mask, Site site = Site::current()) {
  cuda_emulation::check_mask(lanes);
  const unsigned lane = threadIdx.x % 32;
  return cuda_emulation::from_lane(value, lane ^ static_cast<unsigned>(mask), site);
}
template <class T>
T __shfl_sync(unsigned lanes, T value, int lane, Site site = Site::current()) {
  cuda_emulation::check_mask(lanes);
  return cuda_emulation::from_lane(value, static_cast<unsigned>(lane), site);
}
inline unsigned __ballot_sync(unsigned lanes, bool vote, Site site = Site::current()) {
  cuda_emulation::check_mask(lanes);
  const cuda_emulation::Exchange exchange(&vote, sizeof(vote), site);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32; ++lane)
    if (*static_cast<const bool*>(exchange.slot(lane))) votes |= 1U << lane;
  return votes;
}
inline int __popc(unsigned bits) {
  return std::popcount(bits);
}
inline unsigned long long atomicAdd(unsigned long long* to, unsigned long long value) {
  return std::atomic_ref(*to).fetch_add(value, std::memory_order_relaxed);
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __uint_as_float(unsigned bits) {
  return std::bit_cast<float>(bits);
}
inline unsigned __float_as_uint(float value) {
  return std::bit_cast<unsigned>(value);
}
using std::isfinite;
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}

inline void wait_for_warps(int, int, Site site = Site::current()) {
  cuda_emulation::wait_for_block(site);
}

inline void begin_kernel() {
  cuda_emulation::begin_kernel();
}

template <class... Parameters>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, Stream stream,
            std::type_identity_t<Parameters>... arguments) {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  static_assert((sizeof(Parameters) + ... + 0) <= most_parameter_bytes);
  if (shape.is_empty()) return;
  cuda_emulation::check_launch(reinterpret_cast<const void*>(kernel), {shape.blocks_x, 1, 1},
                               shape.shared_bytes);
  cuda_emulation::enqueue(stream, [=] {
    cuda_emulation::run({shape.blocks_x, 1, 1}, shape.threads, shape.shared_bytes, [&] {
      kernel(arguments...);
      cuda_emulation::end_kernel();
    });
  });
}

template <class... Parameters>
void allow_shared_memory(void (*kernel)(Parameters...), std::size_t bytes) {
  cuda_emulation::allow_shared_memory(reinterpret_cast<const void*>(kernel), bytes);
}

inline void copy_to_host(const void* from, std::size_t bytes, void* to, Stream stream) {
  cuda_emulation::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  cuda_emulation::synchronize(stream);
}
inline void copy_to_device(const void* from, std::size_t bytes, void* to, Stream stream) {
  copy_to_host(from, bytes, to, stream);
}

inline std::byte* dynamic_shared() {
  return cuda_emulation::shared_memory();
}

inline void load_words(const void* from, std::uint32_t (&words)[4]) {
  std::memcpy(words, std::assume_aligned<16>(static_cast<const std::byte*>(from)), sizeof(words));
}
inline void store_words(const std::uint32_t (&words)[4], void* to) {
  std::memcpy(std::assume_aligned<16>(static_cast<std::byte*>(to)), words, sizeof(words));
}
inline void store_words(const std::uint32_t (&words)[2], void* to) {
  std::memcpy(std::assume_aligned<8>(static_cast<std::byte*>(to)), words, sizeof(words));
}

inline std::uint16_t bf16_bits(float value) {
  return BFloat16(value).bits;
}

inline std::uint32_t bf16_pair(float low, float high) {
  return bf16_bits(low) | static_cast<std::uint32_t>(bf16_bits(high)) << 16;
}

inline float exp2_approximate(float x) {
  const float power = std::exp2(x);
  return power < 0x1p-126F ? 0 : power;  // NaN stays NaN
}

inline float reciprocal_approximate(float x) {
  return 1 / x;
}

inline void multiply_bf16_16x8x16(float (&sum)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                  std::uint32_t b1) {
  const std::uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const cuda_emulation::Exchange exchange(mine, sizeof(mine), Site::current());
  // Element (row, inner) of a and (inner, column) of b, from the lanes that hold them.
  const auto element = [&](unsigned lane, unsigned word, unsigned inner) {
    std::uint32_t words[6];
    std::memcpy(words, exchange.slot(lane), sizeof(words));
    return std::bit_cast<float>((inner % 2 == 0 ? words[word] << 16 : words[word] & 0xffff0000U));
  };
  const unsigned lane = threadIdx.x % 32, group = lane / 4, pair = 2 * (lane % 4);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = group + 8 * (i / 2), column = pair + i % 2;
    for (unsigned inner = 0; inner < 16; ++inner)
      sum[i] += element(4 * (row % 8) + inner % 8 / 2, row / 8 + 2 * (inner / 8), inner) *
                element(4 * column + inner % 8 / 2, 4 + inner / 8, inner);
  }
}

/// Addresses of the rows of four 8 x 8 matrices, row r of matrix m from lane 8 m + r.
class MatrixRows {
 public:
  explicit MatrixRows(const BFloat16* row, Site site = Site::current())
      : rows_(&row, sizeof(row), site) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
      cuda_emulation::fail("the address of a matrix's row is no multiple of 16 bytes");
  }
  std::uint32_t bits(unsigned matrix, unsigned row, unsigned column) const {
    const BFloat16* start;
    std::memcpy(&start, rows_.slot(8 * matrix + row), sizeof(start));
    return start[column].bits;
  }

 private:
  cuda_emulation::Exchange rows_;
};

inline void load_matrices(const BFloat16* row, std::uint32_t (&words)[4]) {
  const MatrixRows rows(row);
  const unsigned lane = threadIdx.x % 32, group = lane / 4, pair = 2 * (lane % 4);
  for (unsigned m = 0; m < 4; ++m)
    words[m] = rows.bits(m, group, pair) | rows.bits(m, group, pair + 1) << 16;
}
inline void load_matrices_transposed(const BFloat16* row, std::uint32_t (&words)[4]) {
  const MatrixRows rows(row);
  const unsigned lane = threadIdx.x % 32, group = lane / 4, pair = 2 * (lane % 4);
  for (unsigned m = 0; m < 4; ++m)
    words[m] = rows.bits(m, pair, group) | rows.bits(m, pair + 1, group) << 16;
}

template <int bytes>
void copy_async(void* shared, const void* from, bool is_there) {
  cuda_emulation::copy_async(shared, from, bytes, is_there);
}
inline void end_copy_group() {
  cuda_emulation::end_copy_group();
}
template <int but>
void wait_for_copies() {
  cuda_emulation::wait_for_copies(but);
}

}  // namespace fourfold::kernels::cuda
