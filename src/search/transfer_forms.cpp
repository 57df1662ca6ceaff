#include "search/transfer_forms.h"

#include <algorithm>
#include <set>

#include "reshard/reshard_plan.h"

namespace fourfold::search {
namespace {

using machine::AxisGroup;
using machine::Level;

/// The number of a rank's box.
std::int64_t box_of(const std::vector<AxisGroup>& cuts, std::int64_t rank) {
  std::int64_t box = 0;
  for (const AxisGroup& cut : cuts) box = box * cut.ranks + rank / cut.stride % cut.ranks;
  return box;
}

std::int64_t boxes_of(const std::vector<AxisGroup>& cuts) {
  std::int64_t boxes = 1;
  for (const AxisGroup& cut : cuts) boxes *= cut.ranks;
  return boxes;
}

/// The ports of one level of links, each of which so many ranks in a row share.
struct Ports {
  std::int64_t ranks = 1;
  std::int64_t first_of(const TensorOnRanks& side) const { return side.first / ranks; }
  std::int64_t last_of(const TensorOnRanks& side) const {
    return (side.first + side.ranks - 1) / ranks;
  }
  std::int64_t count_of(const TensorOnRanks& side) const {
    return last_of(side) - first_of(side) + 1;
  }
};

/// What the receivers want through the ports of one level.
struct Wanted {
  double most_share = 0;  // of the tensor, through one port
  double all_shares = 0;  // through all of them
};

Wanted wanted_of(const Ports& ports, const TensorOnRanks& from, const TensorOnRanks& to) {
  const auto boxes = static_cast<double>(boxes_of(to.cuts));
  const bool are_alike = from.first % ports.ranks == 0 && from.ranks % ports.ranks == 0 &&
                         to.first % ports.ranks == 0 && to.ranks % ports.ranks == 0;
  const std::int64_t first = ports.first_of(to), last = are_alike ? first : ports.last_of(to);
  Wanted wanted;
  for (std::int64_t port = first; port <= last; ++port) {
    if (port >= ports.first_of(from) && port <= ports.last_of(from)) continue;
    std::set<std::int64_t> of_port;
    const std::int64_t begin = std::max(port * ports.ranks, to.first),
                       end = std::min((port + 1) * ports.ranks, to.first + to.ranks);
    for (std::int64_t rank = begin; rank < end; ++rank)
      of_port.insert(box_of(to.cuts, rank - to.first));
    const double share = static_cast<double>(of_port.size()) / boxes;
    wanted.most_share = std::max(wanted.most_share, share);
    wanted.all_shares += share;
  }
  if (are_alike) wanted.all_shares *= static_cast<double>(ports.count_of(to));
  return wanted;
}

double seconds_at(const Level& level, const Ports& ports, double bytes, const TensorOnRanks& from,
                  const TensorOnRanks& to, std::optional<std::int64_t> chunks) {
  const Wanted wanted = wanted_of(ports, from, to);
  if (wanted.all_shares == 0) return 0;
  // The first port of each chain gets its boxes from the senders, later ones from the one before.
  const double sent_share =
      std::min(wanted.all_shares, 1.0) / static_cast<double>(ports.count_of(from));
  const double port_s =
      bytes * std::max(wanted.most_share, sent_share) / level.reached(level.port_bytes_per_s);
  const double box_bytes = bytes / static_cast<double>(boxes_of(to.cuts));
  const auto hops = static_cast<std::int64_t>(std::max(wanted.all_shares, 1.0));
  const reshard::Links links{.between = {level.latency_s, level.reached(level.link_bytes_per_s)},
                             .inside = {}};
  const std::int64_t best =
      chunks.value_or(reshard::best_chunks(box_bytes, {hops, 0}, links, reshard::most_chunks));
  const double chain_s = reshard::chain_seconds(box_bytes, best, {hops, 0}, links);
  return std::max(port_s + level.latency_s, chain_s);
}

}  // namespace

double transfer_seconds(const machine::Cluster& cluster, double bytes, const TensorOnRanks& from,
                        const TensorOnRanks& to, std::optional<std::int64_t> chunks) {
  double slowest = 0;
  for (std::size_t level = 0; level < cluster.levels.size(); ++level) {
    const Ports ports{cluster.devices_below(level) * cluster.ranks_per_device};
    slowest = std::max(slowest, seconds_at(cluster.levels[level], ports, bytes, from, to, chunks));
  }
  return slowest;
}

}  // namespace fourfold::search
