#include "simulate/links.h"

#include <algorithm>

#include "base/error.h"

namespace fourfold::simulate {

Links::Links(const machine::Cluster& cluster) : cluster_(cluster) {
  require(!cluster.levels.empty() || cluster.devices() == 1, "several devices have links");
  std::int64_t ports = 0;
  for (std::size_t level = 0; level < cluster.levels.size(); ++level) {
    below_.push_back(cluster.devices_below(level));
    first_port_.push_back(static_cast<std::uint32_t>(ports));
    ports += 2 * (cluster.devices() / below_.back());
  }
  for (std::size_t level = 0; level < cluster.levels.size(); ++level) {
    first_pair_.push_back(static_cast<std::uint32_t>(ports));
    const machine::Level& of = cluster.levels[level];
    if (!of.pairs.empty()) ports += cluster.devices() / below_[level] * of.units;
  }
  first_pair_.push_back(static_cast<std::uint32_t>(ports));
  require(ports < std::int64_t{1} << 32, "the ports of a cluster can be numbered");
}

Hop Links::hop(std::int64_t from, std::int64_t to) const {
  if (cluster_.levels.empty()) return {0, cluster_.device.memory_bytes_per_s / 2};
  const machine::Level& level = cluster_.levels[cluster_.meeting_level(from, to).value_or(0)];
  return {level.latency_s, level.reached(level.link_bytes_per_s)};
}

void Links::add_ports(std::int64_t from, std::int64_t to, std::vector<std::uint32_t>& ports) const {
  const auto met = cluster_.meeting_level(from, to);
  if (!met) return;
  for (std::size_t level = 0; level <= *met; ++level) {
    ports.push_back(port_out(level, number_of_unit(level, from)));
    ports.push_back(port_in(level, number_of_unit(level, to)));
  }
  const machine::Level& top = cluster_.levels[*met];
  if (top.pairs.empty()) return;
  const std::int64_t sender = number_of_unit(*met, from);
  const std::int64_t receiver = number_of_unit(*met, to) % top.units;
  // Units without a link of their own reach each other through other units, over their ports.
  if (top.pairs[static_cast<std::size_t>(sender % top.units)][static_cast<std::size_t>(receiver)] >
      0)
    ports.push_back(first_pair_[*met] + static_cast<std::uint32_t>(sender * top.units + receiver));
}

double Links::port_bytes_per_s(std::uint32_t port, bool of_collectives) const {
  if (port >= first_pair_.front()) {
    const auto next = std::upper_bound(first_pair_.begin(), first_pair_.end() - 1, port);
    const auto index = static_cast<std::size_t>(next - first_pair_.begin()) - 1;
    const machine::Level& level = cluster_.levels[index];
    const std::int64_t number = port - first_pair_[index];
    return level.reached(level.pairs[static_cast<std::size_t>(number / level.units % level.units)]
                                    [static_cast<std::size_t>(number % level.units)]);
  }
  const auto next = std::upper_bound(first_port_.begin(), first_port_.end(), port);
  return level_bytes_per_s(static_cast<std::size_t>(next - first_port_.begin()) - 1,
                           of_collectives);
}

double Links::level_bytes_per_s(std::size_t level, bool of_collectives) const {
  const machine::Level& of = cluster_.levels[level];
  const bool has_group = of_collectives && of.group_bytes_per_s > 0;
  return of.reached(has_group ? of.group_bytes_per_s : of.port_bytes_per_s);
}

}  // namespace fourfold::simulate
