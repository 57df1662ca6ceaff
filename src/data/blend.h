// Which set of a blend each sample comes from: no state, and the shares hold in every stretch of
// samples, not only on average.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace fourfold::data {

class Blend {
 public:
  /// The sequence of sets repeats after so many samples; shares are rounded to its parts.
  static constexpr std::int64_t period = 65'536;

  /// Relative weights, all above 0. Sets get whole numbers of each period's samples by largest
  /// remainders; a weight below half a part has none.
  explicit Blend(std::span<const double> weights);

  /// Samples of each period from a set.
  std::int64_t share(std::size_t set) const { return shares_[set]; }

  struct Pick {
    std::size_t set = 0;
    std::int64_t number = 0;  // how many samples before came from that set
  };
  /// The place of sample `sample` of the run, from 0. In any prefix of the samples a set of K has
  /// its share to within (1 + K share) / 2.
  Pick pick(std::int64_t sample) const;

 private:
  struct Place {
    std::uint32_t set, number;
  };
  std::vector<std::int64_t> shares_;
  std::vector<Place> places_;  // of one period
};

}  // namespace fourfold::data
