// The flows of a collective or of messages: how long they take by the links alone, and which ports
// they share with other flows. For all groups that do the same thing at the same time together:
// ranks of one class are in step, so the groups of an axis are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/collective.h"
#include "simulate/links.h"

namespace fourfold::simulate {

/// Flows of one route through one port, or through each of several that are alike.
struct Use {
  std::uint32_t port = 0;
  double flows = 0;  // of all groups
  double bytes = 1;  // that a flow carries, relative to the flows of the route
  double bytes_per_s = 0;
  bool operator==(const Use&) const = default;
};

struct Route {
  double latency_s = 0;       // of a ring of n members: n-1 hops; of the others all there is
  double tree_latency_s = 0;  // of the way to the root of a tree, or back
  double link_s = 0;          // of a byte of a flow on the slowest link
  double alone_s = 0;         // of a byte of a flow when nothing else is under way
  /// False where the groups differ in what they take: the slowest one stands for all.
  bool is_alike = true;
};

/// Makes routes on the links of a cluster. What it notes of ports is kept from route to route, so
/// that a route costs what its own flows cost, however many ports there are; and the flows through
/// ports are kept once for all ports that are alike, so that memory is not by routes and ports.
class RouteMaker {
 public:
  /// `links` must outlive this.
  explicit RouteMaker(const Links& links);

  /// The groups' rings: as many of each group as its links allow, which share what it sends, each
  /// in an order that leaves and enters each unit once. Their double binary trees go through the
  /// same ports. In its ring's place a group has AxoNN's beta (eqs 9 and 10) at the narrowest
  /// level. Cost: linear in the members, by the number of levels.
  Route ring(std::span<const Ranks* const> groups);
  /// Each member sends to all others at once.
  Route direct(std::span<const Ranks* const> groups);
  /// Messages from the first to the second.
  Route message(std::span<const std::pair<Rank, Rank>> pairs);

  /// The uses of each route, in the order in which they were made. Ports through which the same
  /// flows of the same routes go are one; they are numbered from 0 on. Cost: linear in the ports.
  std::vector<std::vector<Use>> uses() const;

 private:
  /// What goes through one port; nothing but in the route that is being made.
  struct PortSum {
    double flows = 0, bytes = 0;  // then seconds that a byte of a flow takes, in place of bytes
    double bytes_per_s = 0;
  };
  /// What went through a port in the routes so far: by the last of them, and before it.
  struct History {
    std::uint32_t before = 0;  // index of a history; 0: nothing
    std::uint32_t route = 0;
    Use last;
  };
  struct Group {
    std::size_t first_port = 0;  // in ports_of_groups_
    double latency_s = 0, tree_latency_s = 0, link_s = 0;
  };
  /// A unit that a level joins, which has so many members of a group, in so many of the units that
  /// it joins itself; a device joins its ranks.
  struct Unit {
    std::int64_t number = 0;
    std::size_t members = 0, joins = 0;
  };

  void begin_group();
  void set_latency(double ring_s, double tree_s);
  void add_link(double bytes_per_s);
  void add_use(std::uint32_t port, double flows, double bytes, double bytes_per_s);
  /// `ports_of_use`: each use is of so many ports that follow one another.
  Route take_route(std::uint32_t ports_of_use);
  void add_to_histories(const Use& use);

  void set_devices(const Ranks& group);
  void set_units();
  void add_ring_latencies();
  void add_rings(std::size_t level);

  const Links& links_;
  std::vector<PortSum> sums_;              // by port
  std::vector<std::uint32_t> history_of_;  // by port
  std::vector<History> histories_ = std::vector<History>(1);
  /// The histories that the route being made has added: the first one, the one that a port had
  /// last, and all by what they are.
  std::size_t first_of_route_ = 1;
  std::uint32_t last_added_ = 0;
  using Step = std::tuple<std::uint32_t, double, double, double>;
  std::map<Step, std::uint32_t> of_route_;
  std::uint32_t num_routes_ = 0;
  std::vector<std::uint32_t> used_;             // ports that have something
  std::vector<std::uint32_t> ports_of_groups_;  // of each group, one group after another
  std::vector<Group> groups_;
  std::vector<std::uint32_t> ports_;  // of one flow
  // The members of the group that is being added.
  std::vector<std::int64_t> devices_;  // sorted
  /// By level, those that have some, in their order; then the cluster as one unit.
  std::vector<std::vector<Unit>> units_;
};

/// A way in which bytes take a route.
struct Way {
  double latency_s = 0;
  double flow_bytes = 0;  // that each flow carries, of a byte of the payload
  bool is_tree = false;
};

/// The way that is cheapest for so many bytes when nothing else is under way, as NCCL chooses it:
///   ring    latency of (n-1) hops + (n-1)/n B / rate, both as often as the collective has passes
///   tree    where the collective may take one: passes times the latency to the root + B / rate
///   direct  the latency of all sends + B / rate, as a message
/// (Thakur, Rabenseifner, Gropp 2005, doi 10.1177/1094342005051521; Sanders, Speck, Traff 2009,
/// doi 10.1016/j.parco.2009.09.001). B is the payload: the tensor before it is cut, or after it is
/// gathered. A measured group overrides both.
Way choose_way(const Route& route, ExchangeKind exchange, std::size_t members, double payload_bytes,
               const machine::MeasuredGroup* measured);

}  // namespace fourfold::simulate
