#include "simulate/network.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace fourfold::simulate {
namespace {

/// The history of a port, and how a route uses it: flows, bytes, bytes a second.
using Step = std::tuple<std::uint32_t, double, double, double>;

}  // namespace

Network::Network(std::span<const Route> routes) {
  // The history of a port is the uses of it by the routes so far: 0 while there is none, then the
  // number of what was used last and how. Ports of one history are one.
  std::uint32_t num_ports = 0;
  for (const Route& route : routes)
    for (const Use& use : route.uses) num_ports = std::max(num_ports, use.port + 1);
  std::vector<std::uint32_t> histories(num_ports, 0);
  std::uint32_t num_histories = 1;
  for (const Route& route : routes) {
    link_s_.push_back(route.link_s);
    std::map<Step, std::uint32_t> known;  // of this route
    auto last = known.end();              // ports that follow one another are mostly alike
    for (const Use& use : route.uses) {
      const Step step(histories[use.port], use.flows, use.bytes, use.bytes_per_s);
      if (last == known.end() || last->first != step) {
        bool is_new = false;
        std::tie(last, is_new) = known.try_emplace(step, num_histories);
        if (is_new) ++num_histories;
      }
      histories[use.port] = last->second;
    }
  }
  std::vector<std::uint32_t> first_port(num_histories, num_ports);
  std::vector<std::uint32_t> numbers(num_ports);  // of the port that stands for this one
  for (std::uint32_t port = num_ports; port-- > 0;) first_port[histories[port]] = port;
  std::uint32_t num_apart = 0;
  for (std::uint32_t port = 0; port < num_ports; ++port)
    if (first_port[histories[port]] == port) numbers[port] = num_apart++;
  for (const Route& route : routes) {
    std::vector<Use>& uses = uses_.emplace_back();
    for (const Use& use : route.uses)
      if (first_port[histories[use.port]] == use.port)
        uses.push_back({numbers[use.port], use.flows, use.bytes, use.bytes_per_s});
  }
  ports_.resize(num_apart);
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
