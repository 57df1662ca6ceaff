// The links of a cluster as numbered ports that flows share. A flow is a stream of bytes from one
// device to another; which flows a collective is made of stands in route.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/mesh.h"
#include "machine/cluster.h"

namespace fourfold::simulate {

/// What one flow meets on its way, when nothing else is under way.
struct Hop {
  double latency_s = 0;
  double link_bytes_per_s = 0;  // the most that one flow has
};

/// Numbers the ports of all units: two for each unit of each level, out and in; and, where a level
/// says what pairs of its units have, one for each ordered pair.
class Links {
 public:
  /// `cluster` must outlive this. Errors: InternalError where it has no level and several devices.
  explicit Links(const machine::Cluster& cluster);

  const machine::Cluster& cluster() const { return cluster_; }
  std::int64_t device_of(Rank rank) const {
    return static_cast<std::int64_t>(rank.index()) / cluster_.ranks_per_device;
  }
  /// Ranks of one device exchange as two devices of the first level do, but through no port.
  Hop hop(std::int64_t from, std::int64_t to) const;
  /// Appends the ports on the way of one flow: out of each unit that it leaves, into each that it
  /// enters, and the link of a pair.
  void add_ports(std::int64_t from, std::int64_t to, std::vector<std::uint32_t>& ports) const;
  /// The number of a unit among those of the level below `level`, which contains the device.
  std::int64_t number_of_unit(std::size_t level, std::int64_t device) const {
    return device / below_[level];
  }
  std::uint32_t port_out(std::size_t level, std::int64_t number) const {
    return first_port_[level] + static_cast<std::uint32_t>(2 * number);
  }
  /// The one after that out of it.
  std::uint32_t port_in(std::size_t level, std::int64_t number) const {
    return port_out(level, number) + 1;
  }
  /// What all flows through the port have together; those of collectives have GroupBW where the
  /// level says it.
  double port_bytes_per_s(std::uint32_t port, bool of_collectives) const;
  /// The same of the ports of the units of a level.
  double level_bytes_per_s(std::size_t level, bool of_collectives) const;
  std::size_t num_levels() const { return below_.size(); }
  std::size_t num_ports() const { return first_pair_.back(); }

 private:
  const machine::Cluster& cluster_;
  std::vector<std::int64_t> below_;        // devices of a unit that the level joins
  std::vector<std::uint32_t> first_port_;  // of each level
  std::vector<std::uint32_t> first_pair_;  // of each level; then the end
};

}  // namespace fourfold::simulate
