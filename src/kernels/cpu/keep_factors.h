// Dropout's factors for a run of elements: the decisions of DropoutMask, sixteen Philox blocks at
// once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/dropout_mask.h"

namespace fourfold::kernels::cpu {

/// Word w of block first + lane is words[w][lane]; Philox::words for many counters in vector
/// registers.
struct PhiloxLanes {
  static constexpr std::int64_t lanes = 16;
  std::uint32_t words[4][lanes];

  PhiloxLanes(const Random& random, std::uint64_t first, std::uint32_t step) {
    // Going through Random::words instead leaves the loop scalar: 4.3 ns a word, not 1.
    auto key = random.key();
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const std::uint64_t block = first + static_cast<std::uint64_t>(lane);
      words[0][lane] = static_cast<std::uint32_t>(block);
      words[1][lane] = static_cast<std::uint32_t>(block >> 32);
      words[2][lane] = step;
      words[3][lane] = 0;
    }
    for (int round = 0; round < 10; ++round) {
      if (round > 0) {
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
      }
#pragma omp simd
      for (std::int64_t lane = 0; lane < lanes; ++lane) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * words[0][lane];
        const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * words[2][lane];
        words[0][lane] = static_cast<std::uint32_t>(p1 >> 32) ^ words[1][lane] ^ key[0];
        words[1][lane] = static_cast<std::uint32_t>(p1);
        words[2][lane] = static_cast<std::uint32_t>(p0 >> 32) ^ words[3][lane] ^ key[1];
        words[3][lane] = static_cast<std::uint32_t>(p0);
      }
    }
  }
};

/// factors[i] = kept_factor, or 0 where element first + i is dropped.
template <class T>
void keep_factors(const DropoutMask& mask, std::uint64_t first, std::int64_t count, T kept_factor,
                  T* factors) {
  constexpr std::int64_t batch = 4 * PhiloxLanes::lanes;
  T chosen[batch];
  auto skipped = static_cast<std::int64_t>(first % 4);
  std::uint64_t block = first / 4;
  for (std::int64_t done = 0; done < count; block += PhiloxLanes::lanes, skipped = 0) {
    const PhiloxLanes philox(mask.random, block, mask.step);
#pragma omp simd
    for (std::int64_t lane = 0; lane < PhiloxLanes::lanes; ++lane) {
      chosen[4 * lane] = philox.words[0][lane] < mask.threshold ? T{0} : kept_factor;
      chosen[4 * lane + 1] = philox.words[1][lane] < mask.threshold ? T{0} : kept_factor;
      chosen[4 * lane + 2] = philox.words[2][lane] < mask.threshold ? T{0} : kept_factor;
      chosen[4 * lane + 3] = philox.words[3][lane] < mask.threshold ? T{0} : kept_factor;
    }
    const std::int64_t wanted = std::min(batch - skipped, count - done);
    std::copy_n(chosen + skipped, wanted, factors + done);
    done += wanted;
  }
}

}  // namespace fourfold::kernels::cpu
