#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "base/error.h"

namespace fourfold::data {
namespace {

std::vector<std::int64_t> whole_shares(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> shares;
  std::vector<std::pair<double, std::size_t>> remainders;  // negative: the largest first
  for (std::size_t set = 0; set < weights.size(); ++set) {
    const double exact = weights[set] / sum * static_cast<double>(Blend::period);
    shares.push_back(static_cast<std::int64_t>(exact));
    remainders.emplace_back(std::floor(exact) - exact, set);
  }
  std::sort(remainders.begin(), remainders.end());
  std::int64_t left =
      Blend::period - std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  for (const auto& [remainder, set] : remainders)
    if (left-- > 0) ++shares[set];
  return shares;
}

}  // namespace

Blend::Blend(std::span<const double> weights) : shares_(whole_shares(weights)) {
  require(std::all_of(weights.begin(), weights.end(), [](double weight) { return weight > 0; }),
          "the weights of a blend are above 0");
  // Item j of a set with n items stands at (2 j + 1) / 2 n of the period.
  std::vector<std::tuple<double, std::uint32_t, std::uint32_t>> items;
  for (std::size_t set = 0; set < shares_.size(); ++set)
    for (std::int64_t j = 0; j < shares_[set]; ++j)
      items.emplace_back(static_cast<double>(2 * j + 1) / static_cast<double>(2 * shares_[set]),
                         static_cast<std::uint32_t>(set), static_cast<std::uint32_t>(j));
  std::sort(items.begin(), items.end());
  for (const auto& [key, set, number] : items) places_.push_back({set, number});
}

Blend::Pick Blend::pick(std::int64_t sample) const {
  const Place& place = places_[static_cast<std::size_t>(sample % period)];
  return {place.set, sample / period * shares_[place.set] + place.number};
}

}  // namespace fourfold::data
