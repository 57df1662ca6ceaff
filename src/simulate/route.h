// The flows of a collective or of messages: how long they take by the links alone, and which ports
// they share with other flows. For all groups that do the same thing at the same time together:
// ranks of one class are in step, so the groups of an axis are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "simulate/links.h"

namespace fourfold::simulate {

/// What is exchanged, as a machine's measured groups name it.
enum class Exchange : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, message };
/// "all_reduce", ..., "send".
std::string_view to_string(Exchange exchange);

/// Flows of one route through one port.
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
  std::vector<Use> uses;      // by port
  /// False where the groups differ in what they take: the slowest one stands for all.
  bool is_alike = true;
};

/// The groups' rings: as many of each group as its links allow, which share what it sends, each in
/// an order that leaves and enters each unit once. Their double binary trees go through the same
/// ports. In its ring's place a group has AxoNN's beta (eqs 9 and 10) at the narrowest level.
Route ring_route(const Links& links, std::span<const Ranks* const> groups);
/// Each member sends to all others at once.
Route all_to_all_route(const Links& links, std::span<const Ranks* const> groups);
/// Messages from the first to the second.
Route message_route(const Links& links, std::span<const std::pair<Rank, Rank>> pairs);

/// A way in which bytes take a route.
struct Way {
  double latency_s = 0;
  double flow_bytes = 0;  // that each flow carries, of a byte of the payload
  bool is_tree = false;
};

/// The way that is cheapest for so many bytes when nothing else is under way, as NCCL chooses it:
///   ring  latency of (n-1) hops + (n-1)/n B / rate, both twice for an all-reduce
///   tree  all-reduce alone: twice the latency to the root + 2 B / rate
/// (Thakur, Rabenseifner, Gropp 2005, doi 10.1177/1094342005051521; Sanders, Speck, Traff 2009,
/// doi 10.1016/j.parco.2009.09.001). B is the payload: the tensor before it is cut, or after it is
/// gathered. A measured group overrides both.
Way choose_way(const Route& route, Exchange exchange, std::size_t members, double payload_bytes,
               const machine::MeasuredGroup* measured);

}  // namespace fourfold::simulate
