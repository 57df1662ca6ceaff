// How long messages take on the host-NIC model (Zhuang et al. 2023, section 3): each host has one
// port, full duplex; within a host links are fast. Not measured and not simulated: closed forms.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace fourfold::reshard {

/// A host of the job, counted from 0: ranks of one host share its port.
using HostId = Id<struct HostTag>;

/// A message of b bytes takes latency_s + b / bytes_per_s.
struct Link {
  double latency_s = 0;
  double bytes_per_s = std::numeric_limits<double>::infinity();
  bool operator==(const Link&) const = default;

  double seconds(double bytes) const { return latency_s + bytes / bytes_per_s; }
};
struct Links {
  Link between;  // hosts: 10 Gbit/s are 1.25e9 bytes a second
  Link inside;   // of a host
  bool operator==(const Links&) const = default;
};

/// How many messages of a chain go over which kind of link.
struct Hops {
  std::int64_t between = 0, inside = 0;
};

/// A box that passes along a chain in `chunks` equal messages, each forwarded as soon as it is
/// there: the first takes every hop in turn, and the others follow at the pace of the slowest.
/// With t = bytes / bytes_per_s between A hosts, and no latency and no time inside hosts,
/// (K + A - 1) t / K. The paper counts K + A steps (its T_bc = t + A t / K), one more than there
/// are.
double chain_seconds(double bytes, std::int64_t chunks, Hops hops, const Links& links);

/// The number of chunks, of `most` at most, for which chain_seconds is least.
/// Derivation. With latency l and A hosts the time is T(K) = (K + A - 1) (l + t / K), least where
/// K^2 = (A - 1) t / l; hops inside a host add their time for a whole box to (A - 1) t. Beyond
/// (K + A - 1) t / K, T has (K + A - 1) l, so it is within 1 % of that where K <= t / (100 l),
/// which the K above fulfils for all boxes of t >= 10^4 (A - 1) l: 0.2 s, 250 MB at 10 Gbit/s,
/// for 20 us and two hosts. A smaller box cannot hide its latency in any number of chunks; there T
/// is within 1 % of the least that any K gives. Without latency K is as large as may be.
std::int64_t best_chunks(double bytes, Hops hops, const Links& links, std::int64_t most);

/// The all-gather of `ranks` equal shares of a tensor of `bytes`, as a ring: (n - 1) steps of one
/// share each, over the slowest of its links.
double gather_seconds(double bytes, std::int64_t ranks, const Link& slowest);

}  // namespace fourfold::reshard
