// Counter-based random numbers: a value is a pure function of (seed, stream, element, step, draw),
// so it is the same on every grid, backend and order of evaluation. There is no generator state to
// save.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace fourfold {

/// Philox4x32-10: ten rounds of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
/// 1, 2, 3", SC'11. Cost: 20 multiplications of 32 x 32 bits for four random words.
struct Philox {
  using Counter = std::array<std::uint32_t, 4>;
  using Key = std::array<std::uint32_t, 2>;

  static constexpr Counter words(Counter counter, Key key) {
    for (int round = 0; round < 10; ++round) {
      if (round > 0) {
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
      }
      const std::uint64_t p0 = std::uint64_t{0xD2511F53U} * counter[0];
      const std::uint64_t p1 = std::uint64_t{0xCD9E8D57U} * counter[2];
      counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0],
                 static_cast<std::uint32_t>(p1),
                 static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1],
                 static_cast<std::uint32_t>(p0)};
    }
    return counter;
  }
};

/// Names one independent sequence of random numbers: a tensor or a purpose
/// ("blocks.3.attn.dropout", "data.order").
struct RandomStream {
  std::uint64_t id = 0;
  constexpr auto operator<=>(const RandomStream&) const = default;
};

/// FNV-1a of the name, 64 bits.
constexpr RandomStream random_stream(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return {hash};
}

/// The random numbers of one (seed, stream). Counter words: element (64 bits), step (32), draw
/// (32).
class Random {
 public:
  /// The key is seed and stream mixed by SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA'14), so
  /// that neighbouring seeds give unrelated keys.
  constexpr Random(std::uint64_t seed, RandomStream stream) {
    const std::uint64_t key = mix(mix(seed + 0x9E3779B97F4A7C15U) ^ stream.id);
    key_ = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  }

  constexpr std::array<std::uint32_t, 4> words(std::uint64_t element, std::uint32_t step,
                                               std::uint32_t draw = 0) const {
    return Philox::words({static_cast<std::uint32_t>(element),
                          static_cast<std::uint32_t>(element >> 32), step, draw},
                         key_);
  }

  /// What `words` hands to Philox, for kernels that run it on vectors.
  constexpr Philox::Key key() const { return key_; }

  /// Uniform in [0, 1), 53 bits, from words 0 and 1.
  constexpr double uniform(std::uint64_t element, std::uint32_t step,
                           std::uint32_t draw = 0) const {
    return to_unit(words(element, step, draw), 0);
  }

  /// Uniform in [0, bound), bound > 0: Lemire's multiply-shift over 64 bits. Bias below bound /
  /// 2^64.
  std::uint64_t below(std::uint64_t bound, std::uint64_t element, std::uint32_t step,
                      std::uint32_t draw = 0) const {
    const auto w = words(element, step, draw);
    const std::uint64_t word = (std::uint64_t{w[1]} << 32) | w[0];
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(word) * bound) >> 64);
  }

  /// Standard normal by Box and Muller, 53-bit uniforms. Uses libm: the same bits wherever the same
  /// libm runs.
  double normal(std::uint64_t element, std::uint32_t step, std::uint32_t draw = 0) const {
    const auto w = words(element, step, draw);
    const double radius = std::sqrt(-2.0 * std::log(1.0 - to_unit(w, 0)));
    return radius * std::cos(6.283185307179586476925286766559 * to_unit(w, 2));
  }

 private:
  static constexpr std::uint64_t mix(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31);
  }
  static constexpr double to_unit(const std::array<std::uint32_t, 4>& w, std::size_t first) {
    const std::uint64_t word = (std::uint64_t{w[first + 1]} << 32) | w[first];
    return static_cast<double>(word >> 11) * 0x1.0p-53;
  }

  Philox::Key key_{};
};

}  // namespace fourfold
