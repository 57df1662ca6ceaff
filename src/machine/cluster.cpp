#include "machine/cluster.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"

namespace fourfold::machine {
namespace {

/// What the rates of a device say of a call.
double by_rates_s(const Device& device, DType dtype, double flops, double bytes) {
  const ComputeRate* rate = rate_of(device, dtype);
  const double flops_s =
      rate == nullptr || flops <= 0 ? 0 : flops / product_flops_per_s(*rate, flops);
  return std::max(flops_s, memory_s(device, bytes));
}

/// In how many units of each level, devices included, the members of a group lie.
std::vector<std::int64_t> units_of_group(const Cluster& cluster, std::int64_t ranks,
                                         std::int64_t stride) {
  std::vector<std::int64_t> counts;
  for (std::size_t level = 0; level <= cluster.levels.size(); ++level) {
    const std::int64_t unit_ranks = cluster.devices_below(level) * cluster.ranks_per_device;
    std::int64_t count = 1;
    for (std::int64_t i = 1; i < ranks; ++i)
      if (i * stride / unit_ranks != (i - 1) * stride / unit_ranks) ++count;
    counts.push_back(count);
  }
  return counts;
}

}  // namespace

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

double memory_s(const Device& device, double bytes) {
  return bytes / (device.memory_bytes_per_s * device.memory_share);
}

double kernel_factor(const Device& device, const MeasuredKernel& kernel, double bytes) {
  const auto factor = [&](const KernelTime& time) {
    return time.seconds / by_rates_s(device, kernel.dtype, time.flops, time.bytes);
  };
  const auto above = std::ranges::lower_bound(kernel.times, bytes, {}, &KernelTime::bytes);
  if (above == kernel.times.begin()) return factor(*above);
  const KernelTime& low = *(above - 1);
  if (above == kernel.times.end()) return factor(low);
  const double way = std::log(bytes / low.bytes) / std::log(above->bytes / low.bytes);
  return factor(low) + way * (factor(*above) - factor(low));
}

double kernel_s(const Device& device, std::string_view op, DType dtype, double flops,
                double bytes) {
  const double seconds = by_rates_s(device, dtype, flops, bytes);
  const auto measured = std::ranges::find_if(device.kernels, [&](const MeasuredKernel& kernel) {
    return kernel.op == op && kernel.dtype == dtype;
  });
  return measured == device.kernels.end() ? seconds
                                          : seconds * kernel_factor(device, *measured, bytes);
}

const std::vector<std::string>& measured_kinds() {
  static const auto names = [] {
    std::vector<std::string> list;
    for (const ExchangeKind kind : exchange_kinds()) list.emplace_back(to_string(kind));
    return list;
  }();
  return names;
}

std::int64_t Cluster::devices() const {
  return devices_below(levels.size());
}

std::optional<std::int64_t> Cluster::ranks_of_node() const {
  if (!levels_of_node) return std::nullopt;
  return devices_below(*levels_of_node) * ranks_per_device;
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
  double rate = top.reached(top.link_bytes_per_s);
  for (std::size_t i = 0; i <= *met; ++i)
    rate = std::min(rate, levels[i].reached(levels[i].port_bytes_per_s));
  if (top.pairs.empty()) return rate;
  const std::int64_t below = devices_below(*met);
  const auto from = static_cast<std::size_t>(a / below % top.units);
  const auto to = static_cast<std::size_t>(b / below % top.units);
  const double direct = top.reached(top.pairs[from][to]);
  return direct > 0 ? std::min(rate, direct) : rate;
}

double MeasuredGroup::seconds(double bytes) const {
  const double line_s = latency_s + bytes / bytes_per_s;
  if (times.empty()) return line_s;
  const MeasuredTime &first = times.front(), &last = times.back();
  if (bytes >= last.bytes) return last.seconds + (bytes - last.bytes) / bytes_per_s;
  if (bytes <= first.bytes) {
    const double start_s = std::min(latency_s, first.seconds);
    return start_s + (first.seconds - start_s) * bytes / first.bytes;
  }
  const auto above = std::ranges::upper_bound(times, bytes, {}, &MeasuredTime::bytes);
  const MeasuredTime &a = *std::prev(above), &b = *above;
  return a.seconds *
         std::pow(b.seconds / a.seconds, std::log(bytes / a.bytes) / std::log(b.bytes / a.bytes));
}

const MeasuredGroup* Cluster::measured(ExchangeKind kind, std::int64_t ranks,
                                       std::int64_t stride) const {
  const auto found = std::find_if(groups.begin(), groups.end(), [&](const MeasuredGroup& group) {
    return group.kind == kind && group.ranks == ranks && group.stride == stride;
  });
  return found == groups.end() ? nullptr : &*found;
}

const MeasuredGroup* Cluster::measured_alike(ExchangeKind kind, std::int64_t ranks,
                                             std::int64_t stride) const {
  const MeasuredGroup* same = measured(kind, ranks, stride);
  const auto has_pairs = [](const Level& level) { return !level.pairs.empty(); };
  if (same != nullptr || groups.empty() || std::ranges::any_of(levels, has_pairs)) return same;
  const std::vector<std::int64_t> units = units_of_group(*this, ranks, stride);
  const auto found = std::ranges::find_if(groups, [&](const MeasuredGroup& group) {
    return group.kind == kind && group.ranks == ranks &&
           units_of_group(*this, ranks, group.stride) == units;
  });
  return found == groups.end() ? nullptr : &*found;
}

void require_ranks(const Cluster& cluster, std::int64_t ranks) {
  if (ranks <= cluster.ranks()) return;
  throw UserError(ExitCode::does_not_fit,
                  format("machine {} has room for {}, the job has {}; give the job fewer ranks, or "
                         "the machine's file more units",
                         cluster.name, counted(cluster.ranks(), "rank"), format_grouped(ranks)));
}

const ComputeRate& required_rate(const Cluster& cluster, DType dtype) {
  if (const ComputeRate* rate = rate_of(cluster.device, dtype)) return *rate;
  std::vector<std::string> known;
  for (const ComputeRate& rate : cluster.device.rates) known.emplace_back(to_string(rate.dtype));
  throw UserError(ExitCode::bad_config,
                  format("machine {} has no rate for products of {}, only for {}; set "
                         "precision.compute, or add device.rates.{} to a file of the machine",
                         cluster.name, to_string(dtype), join(known, ", "), to_string(dtype)));
}

}  // namespace fourfold::machine
