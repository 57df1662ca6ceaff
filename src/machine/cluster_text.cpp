#include "machine/cluster_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/quantity.h"
#include "base/text.h"
#include "base/units.h"
#include "machine/mesh_bandwidth.h"
#include "machine/priced_by.h"

namespace fourfold::machine {
namespace {

/// Three digits, with the unit of a file.
std::string rounded(double value, Quantity quantity) {
  if (!std::isfinite(value)) return "-";
  const std::string digits = format("{:.2e}", value);
  double number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return quantity_text(number, quantity);
}

std::string rate_text(double bytes_per_s) {
  return rounded(bytes_per_s, Quantity::bytes_per_s);
}

std::string times_text(double value) {
  return format("{:.3g}", value);
}

/// What a message between two devices gets that meet at a level: one rate, or the least and most.
std::string pair_text(const Cluster& cluster, std::size_t level) {
  const std::int64_t below = cluster.devices_below(level), units = cluster.levels[level].units;
  if (units == 1) return "-";
  std::set<double> rates = {cluster.pair_bytes_per_s(0, below)};
  if (!cluster.levels[level].pairs.empty())
    for (std::int64_t i = 0; i < units; ++i)
      for (std::int64_t j = 0; j < units; ++j)
        if (i != j) rates.insert(cluster.pair_bytes_per_s(i * below, j * below));
  if (rates.size() == 1) return rate_text(*rates.begin());
  return format("{} to {}", rate_text(*rates.begin()), rate_text(*rates.rbegin()));
}

std::string level_line(const Cluster& cluster, std::size_t level) {
  const Level& shown = cluster.levels[level];
  const std::int64_t devices = cluster.devices_below(level + 1);
  return format("{:<14} {:>6} {:>8} {:>9} {:>20} {:>11} {:>13}\n", shown.name,
                format_grouped(shown.units), format_grouped(devices),
                rounded(shown.latency_s, Quantity::seconds), pair_text(cluster, level),
                rate_text(shown.reached(shown.port_bytes_per_s)),
                rate_text(axis_bytes_per_s(cluster, {devices * cluster.ranks_per_device, 1})));
}

/// "bf16  312 TFLOP/s, in products of 2.1 GFLOP 35%, ...", lines of at most 100 columns.
std::string compute_text(const ComputeRate& rate) {
  std::string text = format("  {:<11} {}", to_string(rate.dtype),
                            rounded(rate.flops_per_s, Quantity::flops_per_s));
  std::string line;
  for (const EfficiencyPoint& point : rate.efficiency)
    line += format("{} {:.0f}% at {}", line.empty() ? ":" : ",", 100 * point.share,
                   rounded(point.flops, Quantity::flops));
  constexpr std::size_t most = 100;
  while (text.size() - (text.rfind('\n') + 1) + line.size() > most) {
    const std::size_t room = most - (text.size() - (text.rfind('\n') + 1));
    const std::size_t end = line.rfind(", ", room - 1);
    if (end == line.npos || end == 0) break;
    text += line.substr(0, end + 1) + "\n" + std::string(13, ' ');
    line = line.substr(end + 1);
  }
  return text + line + "\n";
}

std::string device_text(const Cluster& cluster) {
  const Device& device = cluster.device;
  std::string text = format("device: {}\n", device.name);
  text += format("  memory      {} at {}, of which element-wise rows reach {:.0f}%\n",
                 format_bytes(std::llround(device.memory_bytes)),
                 rate_text(device.memory_bytes_per_s), 100 * device.memory_share);
  for (const ComputeRate& rate : device.rates) text += compute_text(rate);
  text += format(
      "  instruction {} fixed, handoff {}; work takes {} times as long beside "
      "communication\n",
      rounded(device.instruction_s, Quantity::seconds),
      rounded(device.handoff_s, Quantity::seconds),
      times_text(device.slowdown_beside_communication));
  return text;
}

/// Operations of which no call was measured in any type, whether or not the file says so.
std::vector<std::string> unmeasured(const Device& device) {
  std::vector<std::string> names = operations_beside_products();
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::any_of(device.kernels,
                               [&](const MeasuredKernel& kernel) { return kernel.op == name; });
  });
  return names;
}

std::string unmeasured_text(const Device& device) {
  std::string text;
  for (const std::string& name : unmeasured(device))
    text += format("{:<36} {:>5} {:>6}   {}\n", name, "any", "none", "1: as a product");
  return text;
}

std::string kernels_text(const Device& device) {
  std::string text = format("\n{:<36} {:>5} {:>6}   {}\n", "operation", "type", "calls",
                            "times as long as by rates");
  for (const MeasuredKernel& kernel : device.kernels) {
    std::vector<double> factors;
    for (const KernelTime& time : kernel.times)
      factors.push_back(kernel_factor(device, kernel, time.bytes));
    const auto [least, most] = std::ranges::minmax(factors);
    text += format("{:<36} {:>5} {:>6}   {}{}\n", kernel.op, to_string(kernel.dtype),
                   kernel.times.size(), times_text(least),
                   factors.size() > 1 ? " to " + times_text(most) : "");
  }
  return text + unmeasured_text(device);
}

std::string groups_text(const Cluster& cluster) {
  if (cluster.groups.empty()) return "";
  std::string text = format("\n{:<15} {:>6} {:>7} {:>10} {:>12}\n", "measured", "ranks", "stride",
                            "latency", "tensor");
  for (const MeasuredGroup& group : cluster.groups)
    text += format("{:<15} {:>6} {:>7} {:>10} {:>12}\n", to_string(group.kind), group.ranks,
                   group.stride, rounded(group.latency_s, Quantity::seconds),
                   rate_text(group.bytes_per_s));
  return text;
}

Json level_json(const Level& level) {
  Json pairs = Json::array();
  for (const std::vector<double>& row : level.pairs) pairs.push(Json::array_of(row));
  return Json::object({{"name", level.name},
                       {"units", level.units},
                       {"latency_s", level.latency_s},
                       {"link_bytes_per_s", level.link_bytes_per_s},
                       {"port_bytes_per_s", level.port_bytes_per_s},
                       {"group_bytes_per_s", level.group_bytes_per_s},
                       {"share", level.share},
                       {"pairs_bytes_per_s", std::move(pairs)}});
}

Json kernel_json(const MeasuredKernel& kernel) {
  Json times = Json::array();
  for (const KernelTime& time : kernel.times)
    times.push(
        Json::object({{"bytes", time.bytes}, {"flops", time.flops}, {"seconds", time.seconds}}));
  return Json::object(
      {{"op", kernel.op}, {"dtype", to_string(kernel.dtype)}, {"times", std::move(times)}});
}

Json device_json(const Device& device) {
  Json kernels = Json::array();
  for (const MeasuredKernel& kernel : device.kernels) kernels.push(kernel_json(kernel));
  Json rates = Json::array();
  for (const ComputeRate& rate : device.rates) {
    Json points = Json::array();
    for (const EfficiencyPoint& point : rate.efficiency)
      points.push(Json::object({{"flops", point.flops}, {"share", point.share}}));
    rates.push(Json::object({{"dtype", to_string(rate.dtype)},
                             {"flops_per_s", rate.flops_per_s},
                             {"efficiency", std::move(points)}}));
  }
  return Json::object({{"name", device.name},
                       {"memory_bytes", device.memory_bytes},
                       {"memory_bytes_per_s", device.memory_bytes_per_s},
                       {"memory_share", device.memory_share},
                       {"instruction_s", device.instruction_s},
                       {"handoff_s", device.handoff_s},
                       {"slowdown_beside_communication", device.slowdown_beside_communication},
                       {"rates", std::move(rates)},
                       {"kernels", std::move(kernels)},
                       {"unmeasured", Json::array_of(unmeasured(device))}});
}

}  // namespace

std::string cluster_text(const Cluster& cluster) {
  std::string text =
      format("{}: {}\n{} of {} each{}\n\n", cluster.name, cluster.title,
             counted(cluster.devices(), "device"), counted(cluster.ranks_per_device, "rank"),
             cluster.ranks_of_node() ? format("; {} on a node", *cluster.ranks_of_node()) : "");
  text += device_text(cluster);
  if (!cluster.levels.empty())
    text += format("\n{:<14} {:>6} {:>8} {:>9} {:>20} {:>11} {:>13}\n", "level", "units", "devices",
                   "latency", "two devices", "a port", "collective");
  for (std::size_t level = 0; level < cluster.levels.size(); ++level)
    text += level_line(cluster, level);
  return text + kernels_text(cluster.device) + groups_text(cluster);
}

Json cluster_json(const Cluster& cluster) {
  Json levels = Json::array(), groups = Json::array();
  for (const Level& level : cluster.levels) levels.push(level_json(level));
  for (const MeasuredGroup& group : cluster.groups)
    groups.push(Json::object({{"kind", to_string(group.kind)},
                              {"ranks", group.ranks},
                              {"stride", group.stride},
                              {"latency_s", group.latency_s},
                              {"bytes_per_s", group.bytes_per_s}}));
  return Json::object(
      {{"name", cluster.name},
       {"title", cluster.title},
       {"devices", cluster.devices()},
       {"ranks_per_device", cluster.ranks_per_device},
       {"least_element_bytes", cluster.least_element_bytes},
       {"ranks_of_node", cluster.ranks_of_node() ? Json(*cluster.ranks_of_node()) : Json()},
       {"device", device_json(cluster.device)},
       {"levels", std::move(levels)},
       {"groups", std::move(groups)}});
}

}  // namespace fourfold::machine
