#include "program/job.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "program/bind.h"

namespace fourfold::program {
namespace {

/// Calls `visit(channel, peer)` with the channel of every message, and with its peer for changing.
template <class SomeBundle, class Visit>
void for_each_message(SomeBundle& bundle, Visit&& visit) {
  for (auto& program : bundle.programs)
    for (auto& instruction : program.instructions)
      std::visit(
          [&]<class Kind>(Kind& what) {
            if constexpr (requires { what.peer; }) {
              constexpr bool sends = std::is_same_v<std::remove_const_t<Kind>, Send>;
              visit(Channel{what.peer, what.tag, sends}, what.peer);
            }
          },
          static_cast<std::conditional_t<std::is_const_v<SomeBundle>, const AnyKind, AnyKind>&>(
              instruction.what));
}

}  // namespace

std::vector<Channel> channels_of(const Bundle& bundle) {
  std::vector<Channel> channels;
  for_each_message(bundle, [&](const Channel& channel, Rank) {
    if (std::ranges::find(channels, channel) == channels.end()) channels.push_back(channel);
  });
  return channels;
}

Bundle bound_to(Bundle bundle, Rank rank, const std::vector<Rank>& peers) {
  const std::vector<Channel> channels = channels_of(bundle);
  require(channels.size() == peers.size(), "a rank has a peer for each channel of its class");
  for_each_message(bundle, [&](const Channel& channel, Rank& peer) {
    const auto place = std::ranges::find(channels, channel);
    peer = peers[static_cast<std::size_t>(place - channels.begin())];
  });
  bind(bundle, rank);
  return bundle;
}

Bundle bundle_of(const Job& job, Rank rank) {
  require(rank.index() < job.ranks.size(),
          format("rank {} is one of {}", rank.index(), job.ranks.size()));
  const Binding& binding = job.ranks[rank.index()];
  return bound_to(job.classes[binding.of_class], rank, binding.peers);
}

}  // namespace fourfold::program
