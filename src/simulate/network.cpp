#include "simulate/network.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace fourfold::simulate {
namespace {

/// A route and how it uses a port, for finding equal ports.
using Load = std::tuple<std::uint32_t, double, double, double>;

}  // namespace

Network::Network(std::span<const Route> routes) {
  std::vector<std::pair<std::uint32_t, Load>> loads;
  for (std::size_t i = 0; i < routes.size(); ++i) {
    link_s_.push_back(routes[i].link_s);
    for (const Use& use : routes[i].uses)
      loads.push_back(
          {use.port, {static_cast<std::uint32_t>(i), use.flows, use.bytes, use.bytes_per_s}});
  }
  uses_.resize(routes.size());
  std::ranges::sort(loads);
  std::map<std::vector<Load>, std::uint32_t> known;
  std::vector<Load> of_port;
  for (auto at = loads.begin(); at != loads.end();) {
    const std::uint32_t port = at->first;
    of_port.clear();
    for (; at != loads.end() && at->first == port; ++at) of_port.push_back(at->second);
    const auto number = static_cast<std::uint32_t>(known.size());
    if (!known.try_emplace(of_port, number).second) continue;
    for (const auto& [route, flows, bytes, bytes_per_s] : of_port)
      uses_[route].push_back({number, flows, bytes, bytes_per_s});
  }
  ports_.resize(known.size());
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
