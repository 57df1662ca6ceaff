#include "train/stragglers.h"

#include <algorithm>

#include "base/format.h"

namespace fourfold::train {

ComputeTimes Stragglers::summarize(std::span<const double> compute_s) {
  std::vector<double> sorted(compute_s.begin(), compute_s.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t half = sorted.size() / 2;
  const double median =
      sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  const auto slowest = std::max_element(compute_s.begin(), compute_s.end());
  return {.median_s = median,
          .slowest_s = *slowest,
          .slowest_rank = static_cast<std::size_t>(slowest - compute_s.begin())};
}

std::optional<std::string> Stragglers::look(std::span<const double> compute_s) {
  const double median = summarize(compute_s).median_s;
  for (std::size_t rank = 0; rank < compute_s.size(); ++rank) {
    excess_[rank].resize(window_steps);
    excess_[rank][steps_ % window_steps] = median > 0 ? compute_s[rank] / median - 1 : 0;
  }
  if (++steps_ < window_steps || steps_ % interval_steps != 0) return std::nullopt;
  std::string text;
  for (std::size_t rank = 0; rank < compute_s.size(); ++rank) {
    std::vector<double> ordered = excess_[rank];
    const auto middle = ordered.begin() + window_steps / 2;
    std::nth_element(ordered.begin(), middle, ordered.end());
    const bool is_late = *middle > most_excess,
               is_news = is_late && !is_told_[rank] && steps_ >= quiet_until_[rank];
    is_told_[rank] = is_late && (is_told_[rank] || is_news);
    if (!is_news) continue;
    quiet_until_[rank] = 2 * steps_;
    text += format("{}rank {} computes {:.0f}% longer than the median rank, over the last {} steps",
                   text.empty() ? "" : "; ", rank, 100 * *middle, window_steps);
  }
  if (text.empty()) return std::nullopt;
  return text + ", and all others wait for it; look at that host's other work and clock rates";
}

}  // namespace fourfold::train
