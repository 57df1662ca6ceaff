#include <algorithm>
#include <cmath>

#include "train/observer.h"

namespace fourfold::train {

bool BestSoFar::add(std::int64_t step, double loss, std::int64_t most) {
  const bool is_best = std::isfinite(loss) && (lowest.empty() || loss < lowest[0].loss);
  since_best = is_best ? 0 : since_best + 1;
  if (!std::isfinite(loss)) return false;
  const auto place =
      std::upper_bound(lowest.begin(), lowest.end(), loss,
                       [](double value, const Entry& entry) { return value < entry.loss; });
  const auto limit = static_cast<std::size_t>(std::max<std::int64_t>(most, 1));
  const bool is_among = static_cast<std::size_t>(place - lowest.begin()) < limit;
  lowest.insert(place, {step, loss});
  if (lowest.size() > limit) lowest.resize(limit);
  return is_among;
}

}  // namespace fourfold::train
