#include "simulate/route.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <map>
#include <set>

#include "machine/mesh_bandwidth.h"

namespace fourfold::simulate {
namespace {

/// Ports are counted where there are at most so many for each use of them, and else sorted.
constexpr std::size_t most_range_a_use = 16;

/// Where ports stand in a list of uses that is sorted by them. Cost: constant where the ports are
/// close together, else that of a search.
class PortPlaces {
 public:
  explicit PortPlaces(std::span<const Use> uses) : uses_(uses) {
    if (uses.empty()) return;
    first_ = uses.front().port;
    const std::size_t range = uses.back().port - first_ + 1;
    if (range > most_range_a_use * uses.size()) return;
    places_.resize(range);
    for (std::size_t i = 0; i < uses.size(); ++i)
      places_[uses[i].port - first_] = static_cast<std::uint32_t>(i);
  }
  std::size_t of(std::uint32_t port) const {
    if (!places_.empty()) return places_[port - first_];
    return static_cast<std::size_t>(std::ranges::lower_bound(uses_, port, {}, &Use::port) -
                                    uses_.begin());
  }

 private:
  std::span<const Use> uses_;
  std::uint32_t first_ = 0;
  std::vector<std::uint32_t> places_;  // of each port from the first on
};

/// Adds up what the groups of a route need, then asks whether each needs as long as the others.
class RouteBuilder {
 public:
  explicit RouteBuilder(const Links& links, bool is_collective)
      : links_(links), is_collective_(is_collective) {}

  void begin_group() { groups_.push_back({}); }
  void set_latency(double ring_s, double tree_s) {
    groups_.back().latency_s = ring_s;
    groups_.back().tree_latency_s = tree_s;
  }
  void add_link(double bytes_per_s) {
    groups_.back().link_s = std::max(groups_.back().link_s, 1 / bytes_per_s);
  }
  void add_use(std::uint32_t port, double flows, double bytes, double bytes_per_s) {
    uses_.push_back({{port, flows, bytes, bytes_per_s}, groups_.size() - 1});
  }
  void add_use(std::uint32_t port, double flows, double bytes) {
    add_use(port, flows, bytes, links_.port_bytes_per_s(port, is_collective_));
  }
  void add_flow(std::int64_t from, std::int64_t to) {
    add_link(links_.hop(from, to).link_bytes_per_s);
    ports_.clear();
    links_.add_ports(from, to, ports_);
    for (const std::uint32_t port : ports_) add_use(port, 1, 1);
  }

  Route route() && {
    Route route;
    route.uses = used_ports();
    const PortPlaces places(route.uses);
    for (const OfGroup& some : uses_) {
      Use& use = route.uses[places.of(some.use.port)];
      use.flows += some.use.flows;
      use.bytes += some.use.flows * some.use.bytes;
      use.bytes_per_s = std::min(use.bytes_per_s, some.use.bytes_per_s);
    }
    for (Use& use : route.uses) use.bytes /= use.flows;
    std::vector<double> needs_s;
    for (const Group& group : groups_) needs_s.push_back(group.link_s);
    for (const OfGroup& some : uses_) {
      const Use& use = route.uses[places.of(some.use.port)];
      needs_s[some.group] = std::max(needs_s[some.group], use.flows * use.bytes / use.bytes_per_s);
    }
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const Group &group = groups_[i], &first = groups_[0];
      route.latency_s = std::max(route.latency_s, group.latency_s);
      route.tree_latency_s = std::max(route.tree_latency_s, group.tree_latency_s);
      route.link_s = std::max(route.link_s, group.link_s);
      route.alone_s = std::max(route.alone_s, needs_s[i]);
      route.is_alike = route.is_alike && is_near(group.latency_s, first.latency_s) &&
                       is_near(group.tree_latency_s, first.tree_latency_s) &&
                       is_near(needs_s[i], needs_s[0]);
    }
    return route;
  }

 private:
  struct Group {
    double latency_s = 0, tree_latency_s = 0, link_s = 0;
  };
  struct OfGroup {
    Use use;
    std::size_t group = 0;
  };
  /// Sums of the same numbers in another order differ by rounding.
  static bool is_near(double a, double b) {
    return std::max(a, b) - std::min(a, b) <= 1e-12 * std::max(a, b);
  }

  /// One use of each port, sorted, with nothing added up yet.
  std::vector<Use> used_ports() const {
    std::vector<std::uint32_t> ports;
    std::uint32_t end = 0;
    for (const OfGroup& some : uses_) end = std::max(end, some.use.port + 1);
    if (end > most_range_a_use * uses_.size()) {
      for (const OfGroup& some : uses_) ports.push_back(some.use.port);
      std::ranges::sort(ports);
      const auto again = std::ranges::unique(ports);
      ports.erase(again.begin(), again.end());
    } else {
      std::vector<bool> is_used(end);
      for (const OfGroup& some : uses_) is_used[some.use.port] = true;
      for (std::uint32_t port = 0; port < end; ++port)
        if (is_used[port]) ports.push_back(port);
    }
    std::vector<Use> uses;
    uses.reserve(ports.size());
    constexpr double any = std::numeric_limits<double>::infinity();
    for (const std::uint32_t port : ports) uses.push_back({port, 0, 0, any});
    return uses;
  }

  const Links& links_;
  bool is_collective_;
  std::vector<Group> groups_;
  std::vector<OfGroup> uses_;
  std::vector<std::uint32_t> ports_;
};

void set_sorted_devices(const Links& links, const Ranks& group,
                        std::vector<std::int64_t>& devices) {
  devices.clear();
  for (const Rank rank : group) devices.push_back(links.device_of(rank));
  std::ranges::sort(devices);
}

/// How many levels a binary tree of so many has below its root.
double depth(std::size_t count) {
  return count <= 1 ? 0 : static_cast<double>(std::bit_width(count - 1));
}

/// A unit that a level joins, and how many members of a group it has.
struct Members {
  std::int64_t number = 0;
  std::size_t count = 0;
};
/// The members of one group after another: their devices, sorted, and by level the units that have
/// some, in their order. Memory is kept from group to group.
struct GroupOnLinks {
  std::vector<std::int64_t> devices;
  std::vector<std::vector<Members>> units;

  void set(const Links& links, const Ranks& group) {
    set_sorted_devices(links, group, devices);
    units.resize(links.num_levels());
    for (std::size_t level = 0; level < units.size(); ++level) {
      units[level].clear();
      for (const std::int64_t device : devices) {
        const std::int64_t number = links.number_of_unit(level, device);
        if (units[level].empty() || units[level].back().number != number)
          units[level].push_back({number, 0});
        ++units[level].back().count;
      }
    }
  }
};

/// One past the last of those from `begin` on that one unit of the next level joins.
std::size_t end_of_joined(const std::vector<Members>& units, std::size_t begin,
                          std::int64_t joined) {
  std::size_t end = begin;
  while (end < units.size() && units[end].number / joined == units[begin].number / joined) ++end;
  return end;
}

/// From the leaves to the root: on each level a binary tree over the units that have members.
double tree_latency_s(const Links& links, const GroupOnLinks& group) {
  const std::vector<std::int64_t>& devices = group.devices;
  double latency_s = 0;
  std::size_t most_of_device = 0, run = 0;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    run = i > 0 && devices[i] == devices[i - 1] ? run + 1 : 1;
    most_of_device = std::max(most_of_device, run);
  }
  const auto& levels = links.cluster().levels;
  if (levels.empty()) return 0;
  latency_s += depth(most_of_device) * levels[0].latency_s;
  for (std::size_t level = 0; level < levels.size(); ++level) {
    const std::vector<Members>& units = group.units[level];
    std::size_t most = 0;
    for (std::size_t begin = 0, end = 0; begin < units.size(); begin = end) {
      end = end_of_joined(units, begin, levels[level].units);
      most = std::max(most, end - begin);
    }
    latency_s += depth(most) * levels[level].latency_s;
  }
  return latency_s;
}

/// What the rings need at one level: each unit with members sends all that a ring carries out once
/// and gets it once, over the links of all its members to all other units of theirs.
void add_rings(RouteBuilder& builder, const Links& links, std::size_t level,
               const GroupOnLinks& group) {
  const machine::Level& of = links.cluster().levels[level];
  const std::vector<Members>& units = group.units[level];
  if (units.size() < 2) return;
  for (std::size_t begin = 0, end = 0; begin < units.size(); begin = end) {
    end = end_of_joined(units, begin, of.units);
    std::set<std::size_t> here;  // where pairs of units differ
    if (!of.pairs.empty())
      for (std::size_t i = begin; i < end; ++i)
        here.insert(static_cast<std::size_t>(units[i].number % of.units));
    for (std::size_t i = begin; i < end; ++i) {
      const auto [number, members] = units[i];
      const std::uint32_t out = links.port_out(level, number);
      double bytes_per_s = links.port_bytes_per_s(out, true);
      if (end - begin > 1) {
        // What pairs of units have is of all their devices, and other groups take it too.
        if (of.pairs.empty())
          builder.add_link(static_cast<double>((end - begin - 1) * members) * of.link_bytes_per_s);
        else
          bytes_per_s = std::min(
              bytes_per_s,
              machine::links_bytes_per_s(of, links.cluster().devices_below(level),
                                         static_cast<std::size_t>(number % of.units), here));
      }
      builder.add_use(out, 1, 1, bytes_per_s);
      builder.add_use(links.port_in(level, number), 1, 1, bytes_per_s);
    }
  }
}

}  // namespace

std::string_view to_string(Exchange exchange) {
  constexpr std::array<std::string_view, 5> names = {"all_reduce", "all_gather", "reduce_scatter",
                                                     "all_to_all", "send"};
  return names[static_cast<std::size_t>(exchange)];
}

Route ring_route(const Links& links, std::span<const Ranks* const> groups) {
  RouteBuilder builder(links, true);
  GroupOnLinks on_links;
  for (const Ranks* group : groups) {
    builder.begin_group();
    on_links.set(links, *group);
    const std::vector<std::int64_t>& devices = on_links.devices;
    double sum_s = 0, least_s = links.hop(devices.back(), devices.front()).latency_s;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const std::int64_t from = devices[i], to = devices[(i + 1) % devices.size()];
      const Hop hop = links.hop(from, to);
      sum_s += hop.latency_s;
      least_s = std::min(least_s, hop.latency_s);
      if (from == to) builder.add_link(hop.link_bytes_per_s);
    }
    // What starts past the cheapest hop passes all others.
    builder.set_latency(sum_s - least_s, tree_latency_s(links, on_links));
    for (std::size_t level = 0; level < links.num_levels(); ++level)
      add_rings(builder, links, level, on_links);
  }
  return std::move(builder).route();
}

Route all_to_all_route(const Links& links, std::span<const Ranks* const> groups) {
  RouteBuilder builder(links, true);
  std::vector<std::int64_t> devices;
  for (const Ranks* group : groups) {
    builder.begin_group();
    set_sorted_devices(links, *group, devices);
    const double n = static_cast<double>(devices.size());
    double latency_s = 0, link_s = 0;
    std::vector<std::uint32_t> ports;
    std::map<std::uint32_t, double> pairs;  // flows through ports, of one member's bytes each
    std::map<std::uint32_t, std::int64_t> last_sender;
    std::map<std::uint32_t, double> senders;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      double own_latency_s = 0, own_link_s = 0;
      for (std::size_t j = 0; j < devices.size(); ++j) {
        if (i == j) continue;
        const Hop hop = links.hop(devices[i], devices[j]);
        own_latency_s += hop.latency_s;
        own_link_s += 1 / hop.link_bytes_per_s / n;
        ports.clear();
        links.add_ports(devices[i], devices[j], ports);
        for (const std::uint32_t port : ports) {
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
    builder.set_latency(latency_s, 0);
    builder.add_link(1 / link_s);
    for (const auto& [port, bytes] : pairs)
      builder.add_use(port, senders[port], bytes / senders[port]);
  }
  return std::move(builder).route();
}

Route message_route(const Links& links, std::span<const std::pair<Rank, Rank>> pairs) {
  RouteBuilder builder(links, false);
  for (const auto& [sender, receiver] : pairs) {
    builder.begin_group();
    const std::int64_t from = links.device_of(sender), to = links.device_of(receiver);
    builder.set_latency(links.hop(from, to).latency_s, 0);
    builder.add_flow(from, to);
  }
  return std::move(builder).route();
}

Way choose_way(const Route& route, Exchange exchange, std::size_t members, double payload_bytes,
               const machine::MeasuredGroup* measured) {
  if (measured != nullptr) {
    const double seconds = measured->seconds(payload_bytes),
                 latency_s = std::min(measured->latency_s, seconds);
    return {latency_s, (seconds - latency_s) / payload_bytes / route.alone_s, false};
  }
  const double n = static_cast<double>(members);
  switch (exchange) {
    case Exchange::message:
    case Exchange::all_to_all:
      return {route.latency_s, 1, false};
    case Exchange::all_gather:
    case Exchange::reduce_scatter:
      return {route.latency_s, (n - 1) / n, false};
    case Exchange::all_reduce:
      break;
  }
  const Way ring{2 * route.latency_s, 2 * (n - 1) / n, false};
  const Way tree{2 * route.tree_latency_s, 2, true};
  const auto alone_s = [&](const Way& way) {
    return way.latency_s + way.flow_bytes * payload_bytes * route.alone_s;
  };
  return alone_s(tree) < alone_s(ring) ? tree : ring;
}

}  // namespace fourfold::simulate
