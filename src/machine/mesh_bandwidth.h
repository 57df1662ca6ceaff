// What collectives of a mesh's axes get of a cluster's links, in closed form: the bandwidths of ATP
// (eqs 3 and 4) and of AxoNN (eqs 9 and 10). Not the pricing of programs, whose messages meet.
//
// Both papers say the same of one axis. The ranks of a group are equally far apart. At each level
// where they are in several units, all groups that are there in one unit share what it has; the
// narrowest level decides. These are min(d2, devices of the unit) groups where the sizes divide, as
// AxoNN's eq 10 has it; ATP's eq 3 divides by d2 also where a unit has fewer devices than that.
// Groups are counted, not inferred, so that sizes which do not divide are right too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "machine/cluster.h"

namespace fourfold::machine {

/// The ranks of one axis that have all other coordinates in common.
struct AxisGroup {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;  // between neighbours: the product of the axes inside of this one
};

/// What programs reach of the links of one unit to others of its group, all together, by their
/// numbers in the unit that the level makes; `below` devices of each of them take part. Where it
/// has none to any of them, messages pass through other units: each takes a share of as many links
/// as it passes.
double links_bytes_per_s(const Level& level, std::int64_t below, std::size_t unit,
                         const std::set<std::size_t>& units);

/// B' of ATP, beta of AxoNN: the rate at which each rank of a group sends while all groups of the
/// axis do the same; the groups tile the first ranks of the cluster. A unit at a level sends at
/// most its group rate (its port's, without one), and at most what its links to the other units of
/// the same group have together. Infinite for a group of one rank and for ranks of one device.
/// Cost: levels x the ranks looked at, lcm(ranks x stride, ranks of a unit). Requires ranks x
/// stride <= the ranks of the cluster.
double axis_bytes_per_s(const Cluster& cluster, AxisGroup group);

/// B of ATP, eq 4: bytes of the tensor by the time of its all-reduce, latency apart. It is that of
/// the measured all_reduce of such a group, where the cluster has it. Infinite for one rank.
double all_reduce_bytes_per_s(const Cluster& cluster, AxisGroup group);

/// The axes of a mesh, of which each is the stride of the next: axis_bytes_per_s of each. AxoNN's
/// axes x, y, z, data are innermost first.
std::vector<double> axes_bytes_per_s(const Cluster& cluster, const std::vector<std::int64_t>& axes);

/// ATP's mesh of d1 x d2 ranks, in rows of d2 consecutive ones.
struct AtpBandwidths {
  double ring1 = 0, ring2 = 0;              // B'1, B'2
  double all_reduce1 = 0, all_reduce2 = 0;  // B1, B2
};
AtpBandwidths atp_bandwidths(const Cluster& cluster, std::int64_t d1, std::int64_t d2);

/// ATP, eq 2 without its factor 2 L b s h: 7 / (d1 B2) + 2 / (d2 B1), in seconds by byte of an
/// activation of all layers. With B' = GroupBW it is (14 d2 + 4 d1 - 18) / (d1 d2 GroupBW).
double atp_seconds_per_byte(const AtpBandwidths& bandwidths, std::int64_t d1, std::int64_t d2);

}  // namespace fourfold::machine
