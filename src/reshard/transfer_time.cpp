#include "reshard/transfer_time.h"

#include <algorithm>

namespace fourfold::reshard {
namespace {

double shares_seconds(const Transfer& transfer, double bytes, std::span<const HostId> host_of,
                      const Links& links) {
  const HostId sender = host_of[transfer.sender.index()];
  double sending_s = 0, gathering_s = 0;
  for (const std::vector<Rank>& group : transfer.groups) {
    const auto members = static_cast<std::int64_t>(group.size());
    bool is_inside = true;  // one host
    for (const Rank rank : group) {
      const HostId host = host_of[rank.index()];
      is_inside = is_inside && host == host_of[group.front().index()];
      const Link& link = host == sender ? links.inside : links.between;
      sending_s += link.seconds(bytes / static_cast<double>(members));
    }
    gathering_s = std::max(
        gathering_s, gather_seconds(bytes, members, is_inside ? links.inside : links.between));
  }
  return sending_s + gathering_s;
}

}  // namespace

Hops hops_of(const Transfer& transfer, std::span<const HostId> host_of) {
  Hops hops;
  for (const std::vector<Rank>& group : transfer.groups) {
    HostId host = host_of[transfer.sender.index()];
    for (const Rank rank : group) {
      const HostId next = host_of[rank.index()];
      ++(next == host ? hops.inside : hops.between);
      host = next;
    }
  }
  return hops;
}

std::int64_t chunks_of_chain(const Transfer& transfer, std::int64_t element_bytes,
                             std::span<const HostId> host_of, const Links& links) {
  const std::int64_t count = elements(transfer.box);
  return best_chunks(static_cast<double>(count * element_bytes), hops_of(transfer, host_of), links,
                     std::min(most_chunks, count));
}

double transfer_seconds(const Transfer& transfer, std::int64_t element_bytes,
                        std::span<const HostId> host_of, const Links& links) {
  const auto bytes = static_cast<double>(elements(transfer.box) * element_bytes);
  if (transfer.method == Method::shares) return shares_seconds(transfer, bytes, host_of, links);
  if (transfer.method == Method::chain)
    return chain_seconds(bytes, transfer.chunks, hops_of(transfer, host_of), links);
  double seconds = 0;
  for (const std::vector<Rank>& group : transfer.groups)
    for (const Rank rank : group) {
      const bool is_inside = host_of[rank.index()] == host_of[transfer.sender.index()];
      seconds += (is_inside ? links.inside : links.between).seconds(1);
    }
  return seconds;
}

}  // namespace fourfold::reshard
