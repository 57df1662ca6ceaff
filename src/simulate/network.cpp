#include "simulate/network.h"

#include <algorithm>
#include <utility>

namespace fourfold::simulate {
Network::Network(std::span<const Route> routes, std::vector<std::vector<Use>> uses)
    : uses_(std::move(uses)) {
  for (const Route& route : routes) link_s_.push_back(route.link_s);
  std::size_t num_ports = 0;
  for (const std::vector<Use>& of_route : uses_)
    for (const Use& use : of_route) num_ports = std::max<std::size_t>(num_ports, use.port + 1);
  ports_.resize(num_ports);
}

void Network::begin(std::uint32_t mover, std::uint32_t route, std::vector<std::uint32_t>& touched) {
  for (const Use& use : uses_[route]) {
    Port& port = ports_[use.port];
    touched.insert(touched.end(), port.movers.begin(), port.movers.end());
    port.movers.push_back(mover);
    port.flows += use.flows;
  }
}

void Network::end(std::uint32_t mover, std::uint32_t route, std::vector<std::uint32_t>& touched) {
  for (const Use& use : uses_[route]) {
    Port& port = ports_[use.port];
    std::erase(port.movers, mover);
    port.flows -= use.flows;
    touched.insert(touched.end(), port.movers.begin(), port.movers.end());
  }
}

double Network::seconds_per_byte(std::uint32_t route) const {
  double seconds = link_s_[route];
  for (const Use& use : uses_[route])
    seconds = std::max(seconds, ports_[use.port].flows * use.bytes / use.bytes_per_s);
  return seconds;
}

}  // namespace fourfold::simulate
