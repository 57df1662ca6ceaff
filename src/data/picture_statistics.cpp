#include "data/picture_statistics.h"

#include <algorithm>
#include <cmath>

namespace fourfold::data {

PictureStatistics measure_pictures(const PictureSet& set) {
  const auto channels = static_cast<std::size_t>(set.shape().channels);
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(set.shape().size_bytes()));
  // These hold the squares of 2^48 values, which are 280 TB.
  std::vector<std::uint64_t> sums(channels), squares(channels);
  for (std::int64_t picture = 0; picture < set.num_pictures(); ++picture) {
    set.read(picture, bytes);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::uint64_t value = bytes[i];
      sums[i % channels] += value;
      squares[i % channels] += value * value;
    }
  }
  const auto values = static_cast<double>(set.num_pictures()) *
                      static_cast<double>(set.shape().height * set.shape().width);
  PictureStatistics result;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    const double mean = static_cast<double>(sums[channel]) / values;
    const double square = static_cast<double>(squares[channel]) / values;
    result.mean.push_back(mean / 255);
    result.deviation.push_back(std::sqrt(std::max(square - mean * mean, 0.)) / 255);
  }
  return result;
}

std::vector<std::int64_t> count_classes(const PictureSet& set) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(set.num_classes()));
  for (const std::int32_t label : set.facts().labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

}  // namespace fourfold::data
