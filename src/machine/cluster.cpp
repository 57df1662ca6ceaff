#include "machine/cluster.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace fourfold::machine {

double product_flops_per_s(const ComputeRate& rate, double flops) {
  const std::vector<EfficiencyPoint>& points = rate.efficiency;
  if (points.empty()) return rate.flops_per_s;
  const auto above = std::find_if(points.begin(), points.end(), [&](const EfficiencyPoint& point) {
    return point.flops >= flops;
  });
  if (above == points.begin()) return points.front().share * rate.flops_per_s;
  if (above == points.end()) return points.back().share * rate.flops_per_s;
  const EfficiencyPoint& low = *(above - 1);
  const double way = std::log(flops / low.flops) / std::log(above->flops / low.flops);
  return (low.share + way * (above->share - low.share)) * rate.flops_per_s;
}

const ComputeRate* rate_of(const Device& device, DType dtype) {
  const auto found = std::find_if(device.rates.begin(), device.rates.end(),
                                  [&](const ComputeRate& rate) { return rate.dtype == dtype; });
  return found == device.rates.end() ? nullptr : &*found;
}

const std::vector<std::string>& measured_kinds() {
  static const std::vector<std::string> kinds = {"all_reduce", "all_gather", "reduce_scatter",
                                                 "all_to_all", "send"};
  return kinds;
}

std::int64_t Cluster::devices() const {
  return devices_below(levels.size());
}

std::int64_t Cluster::devices_below(std::size_t level) const {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < level; ++i) count *= levels[i].units;
  return count;
}

std::optional<std::size_t> Cluster::meeting_level(std::int64_t a, std::int64_t b) const {
  require(std::min(a, b) >= 0 && std::max(a, b) < devices(), "both devices are of the cluster");
  if (a == b) return std::nullopt;
  std::size_t level = 0;
  for (; level < levels.size(); ++level) {
    a /= levels[level].units;
    b /= levels[level].units;
    if (a == b) break;
  }
  return level;
}

double Cluster::pair_bytes_per_s(std::int64_t a, std::int64_t b) const {
  const std::optional<std::size_t> met = meeting_level(a, b);
  require(met.has_value(), "a message goes from one device to another");
  const Level& top = levels[*met];
  double rate = top.link_bytes_per_s;
  for (std::size_t i = 0; i <= *met; ++i) rate = std::min(rate, levels[i].port_bytes_per_s);
  if (top.pairs.empty()) return rate;
  const std::int64_t below = devices_below(*met);
  const auto from = static_cast<std::size_t>(a / below % top.units);
  const auto to = static_cast<std::size_t>(b / below % top.units);
  const double direct = top.pairs[from][to];
  return direct > 0 ? std::min(rate, direct) : rate;
}

const MeasuredGroup* Cluster::measured(const std::string& kind, std::int64_t ranks,
                                       std::int64_t stride) const {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const MeasuredGroup& group) {
    return group.kind == kind && group.ranks == ranks && group.stride == stride;
  });
  return found == groups.end() ? nullptr : &*found;
}

}  // namespace fourfold::machine
