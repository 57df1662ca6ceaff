// Flows that are under way at the same time, and how fast each of them is. Not when they begin and
// end: clock.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "simulate/route.h"

namespace fourfold::simulate {

/// Ports are shared by flows, equally. The speed of a route is that of its slowest flow: the least
/// of the link's rate and of the ports' rates, each by the number of flows through it. A flow that
/// is held up elsewhere takes its share of a port all the same.
class Network {
 public:
  /// The uses of each route; ports that are alike are one (RouteMaker::uses), so that the cost of a
  /// change does not grow with the number of ranks.
  Network(std::span<const Route> routes, std::vector<std::vector<Use>> uses);

  /// Something takes a route from now on, or no longer does. `mover` names it. The movers whose
  /// speed may have changed, itself apart, are appended to `touched`.
  void begin(std::uint32_t mover, std::uint32_t route, std::vector<std::uint32_t>& touched);
  void end(std::uint32_t mover, std::uint32_t route, std::vector<std::uint32_t>& touched);

  /// Seconds that a byte of each flow takes now, on a route that is under way.
  double seconds_per_byte(std::uint32_t route) const;

 private:
  struct Port {
    double flows = 0;                   // under way
    std::vector<std::uint32_t> movers;  // under way
  };
  std::vector<double> link_s_;          // by route
  std::vector<std::vector<Use>> uses_;  // by route, of the ports below
  std::vector<Port> ports_;
};

}  // namespace fourfold::simulate
