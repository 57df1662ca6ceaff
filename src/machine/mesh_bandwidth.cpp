#include "machine/mesh_bandwidth.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"

namespace fourfold::machine {
namespace {

constexpr double unbounded = std::numeric_limits<double>::infinity();

/// How many links a message passes from one unit to another; 0: there is no way.
std::size_t hops_between(const Level& level, std::size_t from, std::size_t to) {
  std::vector<std::size_t> hops(level.pairs.size(), 0), reached = {from};
  for (std::size_t next = 0; next < reached.size(); ++next)
    for (std::size_t unit = 0; unit < hops.size(); ++unit)
      if (level.pairs[reached[next]][unit] > 0 && hops[unit] == 0 && unit != from) {
        hops[unit] = hops[reached[next]] + 1;
        reached.push_back(unit);
      }
  return hops[to];
}

/// The least that a unit of the group has at this level, before groups share it.
double level_bytes_per_s(const Level& level, std::int64_t below,
                         const std::set<std::size_t>& units) {
  double least =
      level.reached(level.group_bytes_per_s > 0 ? level.group_bytes_per_s : level.port_bytes_per_s);
  for (const std::size_t unit : units)
    least = std::min(least, links_bytes_per_s(level, below, unit, units));
  return least;
}

/// Units of one level that one group is in, all of one unit of the level above.
struct Meeting {
  std::int64_t parent = 0;
  std::set<std::size_t> units;
};

/// The meetings of all groups of the axis, of which the first ranks are looked at: as many as it
/// takes until groups lie to units as at the beginning.
std::vector<Meeting> meetings_at(const Cluster& cluster, std::size_t level, AxisGroup group) {
  const Level& joined = cluster.levels[level];
  const std::int64_t unit_ranks = cluster.devices_below(level) * cluster.ranks_per_device;
  const bool are_alike = level + 1 == cluster.levels.size() && joined.pairs.empty();
  const std::int64_t tile = group.ranks * group.stride;
  const std::int64_t ranks = std::min(std::lcm(tile, unit_ranks * (are_alike ? 1 : joined.units)),
                                      cluster.ranks() / tile * tile);
  std::vector<Meeting> meetings;
  for (std::int64_t first = 0; first < ranks; ++first) {
    if (first / group.stride % group.ranks != 0) continue;
    std::map<std::int64_t, std::set<std::size_t>> by_parent;
    for (std::int64_t i = 0; i < group.ranks; ++i) {
      const std::int64_t unit = (first + i * group.stride) / unit_ranks;
      by_parent[unit / joined.units].insert(static_cast<std::size_t>(unit % joined.units));
    }
    for (auto& [parent, units] : by_parent)
      if (units.size() > 1) meetings.push_back({parent, std::move(units)});
  }
  return meetings;
}

/// The least that a group has at this level, where all that meet in a unit share what it has.
double least_at(const Cluster& cluster, std::size_t level, const std::vector<Meeting>& meetings) {
  std::map<std::pair<std::int64_t, std::size_t>, double> sharing;
  for (const Meeting& meeting : meetings)
    for (const std::size_t unit : meeting.units) sharing[{meeting.parent, unit}] += 1;
  const std::int64_t below = cluster.devices_below(level);
  std::map<std::set<std::size_t>, double> known;  // most groups meet in the same units
  double least = unbounded;
  for (const Meeting& meeting : meetings) {
    const auto [found, is_new] = known.try_emplace(meeting.units, 0);
    if (is_new) found->second = level_bytes_per_s(cluster.levels[level], below, meeting.units);
    for (const std::size_t unit : meeting.units)
      least = std::min(least, found->second / sharing[{meeting.parent, unit}]);
  }
  return least;
}

}  // namespace

double links_bytes_per_s(const Level& level, std::int64_t below, std::size_t unit,
                         const std::set<std::size_t>& units) {
  const auto others = static_cast<double>(units.size() - 1);
  if (level.pairs.empty())
    return others * level.reached(level.link_bytes_per_s) * static_cast<double>(below);
  double direct = 0;
  std::size_t fewest = 0;
  for (const std::size_t other : units) {
    direct += level.pairs[unit][other];
    const std::size_t hops = hops_between(level, unit, other);
    if (hops > 0 && (fewest == 0 || hops < fewest)) fewest = hops;
  }
  if (direct > 0) return level.reached(direct);
  if (fewest == 0) return 0;
  double all = 0;
  for (const double rate : level.pairs[unit]) all += rate;
  return level.reached(all) / static_cast<double>(fewest);
}

double axis_bytes_per_s(const Cluster& cluster, AxisGroup group) {
  require(group.ranks >= 1 && group.stride >= 1, "a group has ranks and a stride");
  require(group.ranks * group.stride <= cluster.ranks(), "the group fits the cluster");
  double least = unbounded;
  for (std::size_t level = 0; level < cluster.levels.size() && group.ranks > 1; ++level)
    least = std::min(least, least_at(cluster, level, meetings_at(cluster, level, group)));
  return least;
}

double all_reduce_bytes_per_s(const Cluster& cluster, AxisGroup group) {
  if (group.ranks == 1) return unbounded;
  if (const auto* measured =
          cluster.measured_alike(Collective::all_reduce, group.ranks, group.stride))
    return measured->bytes_per_s;
  const auto ranks = static_cast<double>(group.ranks);
  return ranks / (2 * (ranks - 1)) * axis_bytes_per_s(cluster, group);
}

std::vector<double> axes_bytes_per_s(const Cluster& cluster,
                                     const std::vector<std::int64_t>& axes) {
  std::vector<double> rates;
  std::int64_t stride = 1;
  for (const std::int64_t ranks : axes) {
    rates.push_back(axis_bytes_per_s(cluster, {ranks, stride}));
    stride *= ranks;
  }
  return rates;
}

AtpBandwidths atp_bandwidths(const Cluster& cluster, std::int64_t d1, std::int64_t d2) {
  const AxisGroup first{d1, d2}, second{d2, 1};
  return {axis_bytes_per_s(cluster, first), axis_bytes_per_s(cluster, second),
          all_reduce_bytes_per_s(cluster, first), all_reduce_bytes_per_s(cluster, second)};
}

double atp_seconds_per_byte(const AtpBandwidths& bandwidths, std::int64_t d1, std::int64_t d2) {
  return 7 / (static_cast<double>(d1) * bandwidths.all_reduce2) +
         2 / (static_cast<double>(d2) * bandwidths.all_reduce1);
}

}  // namespace fourfold::machine
