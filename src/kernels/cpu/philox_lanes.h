// Philox4x32-10 for many counters in vector registers: the words of base/random.h in element order.
// Intrinsics for one instruction alone, the product of 32 x 32 bits: from plain loops gcc 12 makes
// products of whole vectors and permutations around them (4 times as slow).
#pragma once

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "base/random.h"

namespace fourfold::kernels::cpu {

// A register of words of 64 bits, of which Philox uses the lower halves; what stands in the upper
// ones does not matter.
#if defined(__AVX512F__)
inline constexpr int philox_lanes = 8;
#else
inline constexpr int philox_lanes = 4;
#endif
typedef std::uint64_t PhiloxRegister __attribute__((vector_size(philox_lanes * 8)));

inline PhiloxRegister multiply_lower(const PhiloxRegister& a, std::uint32_t b) {
  const PhiloxRegister factor = PhiloxRegister{} + std::uint64_t{b};
#if defined(__AVX512F__)
  return reinterpret_cast<PhiloxRegister>(_mm512_maskz_mul_epu32(
      0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(factor)));
#elif defined(__AVX2__)
  return reinterpret_cast<PhiloxRegister>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(factor)));
#else
  return (a & 0xffffffffU) * factor;
#endif
}

/// In two registers: a[0], b[0], a[2], b[2] ... a[1], b[1], a[3] ...
struct Interleaved {
  PhiloxRegister even, odd;
};
inline Interleaved interleaved(const PhiloxRegister& a, const PhiloxRegister& b) {
#if defined(__AVX512F__)
  return {__builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14),
          __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15)};
#else
  return {__builtin_shufflevector(a, b, 0, 4, 2, 6), __builtin_shufflevector(a, b, 1, 5, 3, 7)};
#endif
}

/// The block of each lane: the even lanes count the first half of the blocks, the odd ones the
/// second, so that `interleaved` gives words in order.
#if defined(__AVX512F__)
inline constexpr PhiloxRegister lane_blocks = {0, 4, 1, 5, 2, 6, 3, 7};
#else
inline constexpr PhiloxRegister lane_blocks = {0, 2, 1, 3};
#endif

/// Words that one call with so many registers makes.
constexpr std::int64_t philox_words(int registers) {
  return std::int64_t{4} * registers * philox_lanes;
}

/// The keys of the ten rounds: in memory, where every lane reads them at no cost.
struct PhiloxKeys {
  std::uint64_t round[10][2];
  explicit PhiloxKeys(Philox::Key key) {
    for (std::uint64_t(&keys)[2] : round) {
      keys[0] = key[0];
      keys[1] = key[1];
      key[0] += 0x9E3779B9U;
      key[1] += 0xBB67AE85U;
    }
  }
};

/// words[4 i + w] = word w of block first + i, draw 0. Several registers of each word, because one
/// chain of products leaves the multipliers idle: ns a word with 1, 2 and 4 of them 0.51, 0.43,
/// 0.38.
template <int registers>
void philox_group(const PhiloxKeys& keys, std::uint64_t first, std::uint32_t step,
                  std::uint32_t* words) {
  PhiloxRegister x[registers][4];
  for (std::uint64_t i = 0; i < registers; ++i) {
    const PhiloxRegister block = lane_blocks + (first + i * philox_lanes);
    x[i][0] = block;
    x[i][1] = block >> 32;
    x[i][2] = PhiloxRegister{} + std::uint64_t{step};
    x[i][3] = PhiloxRegister{};
  }
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round)
    for (PhiloxRegister(&of)[4] : x) {
      const PhiloxRegister p0 = multiply_lower(of[0], 0xD2511F53U);
      const PhiloxRegister p1 = multiply_lower(of[2], 0xCD9E8D57U);
      of[0] = (p1 >> 32) ^ of[1] ^ keys.round[round][0];
      of[1] = p1;
      of[2] = (p0 >> 32) ^ of[3] ^ keys.round[round][1];
      of[3] = p0;
    }
  for (const PhiloxRegister(&of)[4] : x) {
    const PhiloxRegister low = (of[0] & 0xffffffffU) | (of[1] << 32);
    const PhiloxRegister high = (of[2] & 0xffffffffU) | (of[3] << 32);
    const Interleaved pairs = interleaved(low, high);
    std::memcpy(words, &pairs, sizeof pairs);
    words += 4 * philox_lanes;
  }
}

}  // namespace fourfold::kernels::cpu
