#include "simulate/route.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>

#include "machine/mesh_bandwidth.h"

namespace fourfold::simulate {
namespace {

/// Sums of the same numbers in another order differ by rounding.
bool is_near(double a, double b) {
  return std::max(a, b) - std::min(a, b) <= 1e-12 * std::max(a, b);
}

/// How many levels a binary tree of so many has below its root.
double depth(std::size_t count) {
  return count <= 1 ? 0 : static_cast<double>(std::bit_width(count - 1));
}

}  // namespace

RouteMaker::RouteMaker(const Links& links)
    : links_(links), sums_(links.num_ports()), history_of_(links.num_ports()) {}

// --- adding up what the groups of a route need, and whether each needs as long as the others

void RouteMaker::begin_group() {
  groups_.push_back({.first_port = ports_of_groups_.size()});
}

void RouteMaker::set_latency(double ring_s, double tree_s) {
  groups_.back().latency_s = ring_s;
  groups_.back().tree_latency_s = tree_s;
}

void RouteMaker::add_link(double bytes_per_s) {
  groups_.back().link_s = std::max(groups_.back().link_s, 1 / bytes_per_s);
}

void RouteMaker::add_use(std::uint32_t port, double flows, double bytes, double bytes_per_s) {
  PortSum& sum = sums_[port];
  if (sum.flows == 0) {
    used_.push_back(port);
    sum.bytes_per_s = bytes_per_s;
  }
  sum.flows += flows;
  sum.bytes += flows * bytes;
  sum.bytes_per_s = std::min(sum.bytes_per_s, bytes_per_s);
  ports_of_groups_.push_back(port);
}

/// Ports that follow one another are mostly alike, and a route has few kinds of them.
void RouteMaker::add_to_histories(const Use& use) {
  std::uint32_t& history = history_of_[use.port];
  const auto is_same = [&](const History& known) {
    return known.before == history && known.last.flows == use.flows &&
           known.last.bytes == use.bytes && known.last.bytes_per_s == use.bytes_per_s;
  };
  if (last_added_ >= first_of_route_ && is_same(histories_[last_added_])) {
    history = last_added_;
    return;
  }
  const Step step(history, use.flows, use.bytes, use.bytes_per_s);
  const auto [known, is_new] =
      of_route_.try_emplace(step, static_cast<std::uint32_t>(histories_.size()));
  if (is_new) histories_.push_back({history, num_routes_, use});
  history = last_added_ = known->second;
}

std::vector<std::vector<Use>> RouteMaker::uses() const {
  std::vector<std::vector<Use>> uses(num_routes_);
  std::vector<bool> is_of_port(histories_.size());
  for (const std::uint32_t history : history_of_) is_of_port[history] = true;
  std::uint32_t number = 0;
  for (std::size_t i = 1; i < histories_.size(); ++i) {
    if (!is_of_port[i]) continue;
    for (std::size_t at = i; at != 0; at = histories_[at].before) {
      Use use = histories_[at].last;
      use.port = number;
      uses[histories_[at].route].push_back(use);
    }
    ++number;
  }
  return uses;
}

Route RouteMaker::take_route(std::uint32_t ports_of_use) {
  Route route;
  of_route_.clear();
  first_of_route_ = histories_.size();
  for (const std::uint32_t port : used_) {
    PortSum& sum = sums_[port];
    Use use{port, sum.flows, sum.bytes / sum.flows, sum.bytes_per_s};
    sum.bytes = use.flows * use.bytes / use.bytes_per_s;
    for (; use.port < port + ports_of_use; ++use.port) add_to_histories(use);
  }
  ++num_routes_;
  double first_needs_s = 0;
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group &group = groups_[i], &first = groups_[0];
    const std::size_t end =
        i + 1 < groups_.size() ? groups_[i + 1].first_port : ports_of_groups_.size();
    double needs_s = group.link_s;
    for (std::size_t at = group.first_port; at < end; ++at)
      needs_s = std::max(needs_s, sums_[ports_of_groups_[at]].bytes);
    if (i == 0) first_needs_s = needs_s;
    route.latency_s = std::max(route.latency_s, group.latency_s);
    route.tree_latency_s = std::max(route.tree_latency_s, group.tree_latency_s);
    route.link_s = std::max(route.link_s, group.link_s);
    route.alone_s = std::max(route.alone_s, needs_s);
    route.is_alike = route.is_alike && is_near(group.latency_s, first.latency_s) &&
                     is_near(group.tree_latency_s, first.tree_latency_s) &&
                     is_near(needs_s, first_needs_s);
  }
  for (const std::uint32_t port : used_) sums_[port] = {};
  used_.clear();
  ports_of_groups_.clear();
  groups_.clear();
  return route;
}

// --- rings

void RouteMaker::set_devices(const Ranks& group) {
  devices_.clear();
  for (const Rank rank : group) devices_.push_back(links_.device_of(rank));
  if (!std::ranges::is_sorted(devices_)) std::ranges::sort(devices_);
}

/// A division for each unit of a level above the first: this is most of what a group costs.
void RouteMaker::set_units() {
  const auto& levels = links_.cluster().levels;
  units_.resize(levels.size() + 1);
  for (std::vector<Unit>& units : units_) units.clear();
  std::vector<Unit>& devices = units_.front();
  for (const std::int64_t device : devices_) {
    if (devices.empty() || devices.back().number != device) devices.push_back({device, 0, 0});
    ++devices.back().members;
    ++devices.back().joins;
  }
  for (std::size_t level = 0; level + 1 < levels.size(); ++level) {
    std::int64_t end = 0;  // of the units that the last one above joins
    for (const Unit& unit : units_[level]) {
      std::vector<Unit>& above = units_[level + 1];
      if (above.empty() || unit.number >= end) {
        const std::int64_t number = unit.number / levels[level].units;
        above.push_back({number, 0, 0});
        end = (number + 1) * levels[level].units;
      }
      above.back().members += unit.members;
      ++above.back().joins;
    }
  }
  if (!levels.empty()) units_.back() = {{0, devices_.size(), units_[levels.size() - 1].size()}};
}

/// Latencies of the ring in the order of devices, and of a tree over the units of each level that
/// have members, from the leaves to the root.
void RouteMaker::add_ring_latencies() {
  const auto& levels = links_.cluster().levels;
  if (levels.empty()) {
    add_link(links_.hop(devices_.front(), devices_.front()).link_bytes_per_s);
    return;
  }
  double sum_s = 0, least_s = std::numeric_limits<double>::infinity(), tree_s = 0;
  double last_s = levels[0].latency_s;  // from the last member to the first, over the highest level
  const auto add_hops = [&](std::size_t count, double latency_s) {
    if (count == 0) return;
    sum_s += static_cast<double>(count) * latency_s;
    least_s = std::min(least_s, latency_s);
  };
  const auto most_joined = [&](std::size_t level) {
    return std::ranges::max(units_[level], {}, &Unit::joins).joins;
  };
  if (devices_.size() > units_[0].size()) {  // ranks of one device
    add_hops(devices_.size() - units_[0].size(), levels[0].latency_s);
    add_link(links_.hop(devices_.front(), devices_.front()).link_bytes_per_s);
    tree_s += depth(most_joined(0)) * levels[0].latency_s;
  }
  for (std::size_t level = 0; level < levels.size(); ++level) {
    // Neighbours in one unit of the level above meet here, but those that are in one here.
    const std::size_t met = units_[level].size() - units_[level + 1].size();
    add_hops(met, levels[level].latency_s);
    if (met > 0) last_s = levels[level].latency_s;
    tree_s += depth(most_joined(level + 1)) * levels[level].latency_s;
  }
  add_hops(1, last_s);
  // What starts past the cheapest hop of the ring passes all others.
  set_latency(sum_s - least_s, tree_s);
}

/// What the rings need at one level: each unit with members sends all that a ring carries out once
/// and gets it once, over the links of all its members to all other units of theirs. A use is of
/// both of its ports.
void RouteMaker::add_rings(std::size_t level) {
  const machine::Level& of = links_.cluster().levels[level];
  const std::vector<Unit>& units = units_[level];
  if (units.size() < 2) return;
  const double port_bytes_per_s = links_.level_bytes_per_s(level, true);
  std::size_t begin = 0;
  for (const Unit& above : units_[level + 1]) {
    const std::size_t end = begin + above.joins;
    std::set<std::size_t> here;  // where pairs of units differ
    if (!of.pairs.empty())
      for (std::size_t i = begin; i < end; ++i)
        here.insert(static_cast<std::size_t>(units[i].number % of.units));
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t number = units[i].number;
      double bytes_per_s = port_bytes_per_s;
      if (end - begin > 1) {
        // What pairs of units have is of all their devices, and other groups take it too.
        if (of.pairs.empty())
          add_link(static_cast<double>((end - begin - 1) * units[i].members) *
                   of.reached(of.link_bytes_per_s));
        else
          bytes_per_s = std::min(
              bytes_per_s,
              machine::links_bytes_per_s(of, links_.cluster().devices_below(level),
                                         static_cast<std::size_t>(number % of.units), here));
      }
      add_use(links_.port_out(level, number), 1, 1, bytes_per_s);
    }
    begin = end;
  }
}

Route RouteMaker::ring(std::span<const Ranks* const> groups) {
  for (const Ranks* group : groups) {
    begin_group();
    set_devices(*group);
    set_units();
    add_ring_latencies();
    for (std::size_t level = 0; level < links_.num_levels(); ++level) add_rings(level);
  }
  return take_route(2);
}

// --- all others

Route RouteMaker::direct(std::span<const Ranks* const> groups) {
  for (const Ranks* group : groups) {
    begin_group();
    set_devices(*group);
    const double n = static_cast<double>(devices_.size());
    double latency_s = 0, link_s = 0;
    std::map<std::uint32_t, double> pairs;  // flows through ports, of one member's bytes each
    std::map<std::uint32_t, std::int64_t> last_sender;
    std::map<std::uint32_t, double> senders;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      double own_latency_s = 0, own_link_s = 0;
      for (std::size_t j = 0; j < devices_.size(); ++j) {
        if (i == j) continue;
        const Hop hop = links_.hop(devices_[i], devices_[j]);
        own_latency_s += hop.latency_s;
        own_link_s += 1 / hop.link_bytes_per_s / n;
        ports_.clear();
        links_.add_ports(devices_[i], devices_[j], ports_);
        for (const std::uint32_t port : ports_) {
          pairs[port] += 1 / n;
          const auto member = static_cast<std::int64_t>(i);
          const auto place = last_sender.try_emplace(port, -1).first;
          if (place->second != member) senders[port] += 1;
          place->second = member;
        }
      }
      latency_s = std::max(latency_s, own_latency_s);
      link_s = std::max(link_s, own_link_s);
    }
    set_latency(latency_s, 0);
    add_link(1 / link_s);
    for (const auto& [port, bytes] : pairs)
      add_use(port, senders[port], bytes / senders[port], links_.port_bytes_per_s(port, true));
  }
  return take_route(1);
}

Route RouteMaker::message(std::span<const std::pair<Rank, Rank>> pairs) {
  for (const auto& [sender, receiver] : pairs) {
    begin_group();
    const std::int64_t from = links_.device_of(sender), to = links_.device_of(receiver);
    const Hop hop = links_.hop(from, to);
    set_latency(hop.latency_s, 0);
    add_link(hop.link_bytes_per_s);
    ports_.clear();
    links_.add_ports(from, to, ports_);
    for (const std::uint32_t port : ports_)
      add_use(port, 1, 1, links_.port_bytes_per_s(port, false));
  }
  return take_route(1);
}

Way choose_way(const Route& route, ExchangeKind exchange, std::size_t members, double payload_bytes,
               const machine::MeasuredGroup* measured) {
  if (measured != nullptr) {
    const double seconds = measured->seconds(payload_bytes),
                 latency_s = std::min(measured->latency_s, seconds);
    return {latency_s, (seconds - latency_s) / payload_bytes / route.alone_s, false};
  }
  if (!exchange) return {route.latency_s, 1, false};
  const CollectiveFacts& facts = facts_of(*exchange);
  if (facts.path == Path::direct) return {route.latency_s, facts.passes, false};
  const Way ring{facts.passes * route.latency_s, facts.sent_share(static_cast<double>(members)),
                 false};
  if (facts.path == Path::ring) return ring;
  const Way tree{facts.passes * route.tree_latency_s, facts.passes, true};
  const auto alone_s = [&](const Way& way) {
    return way.latency_s + way.flow_bytes * payload_bytes * route.alone_s;
  };
  return alone_s(tree) < alone_s(ring) ? tree : ring;
}

}  // namespace fourfold::simulate
