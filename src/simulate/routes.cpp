#include "simulate/routes.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"

namespace fourfold::simulate {
namespace {

std::int64_t stride_of(const Ranks& members) {
  const auto at = [&](std::size_t i) { return static_cast<std::int64_t>(members[i].index()); };
  const std::int64_t stride = at(1) - at(0);
  for (std::size_t i = 2; i < members.size(); ++i)
    if (at(i) - at(i - 1) != stride) return 0;
  return stride;
}

/// True if each member sends to all others at once; a collective alone.
bool is_direct(ExchangeKind exchange) {
  return facts_of(exchange.value()).path == Path::direct;
}

}  // namespace

Routes::Routes(const Links& links, const program::MeetingsView& meetings,
               const program::Runners& runners, std::span<const Track> tracks)
    : links_(links), meetings_(meetings), runners_(runners), tracks_(tracks), maker_(links) {
  std::vector<std::vector<Needs>> needs(tracks.size());
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    needs[i].resize(meetings.classes[i]->collectives.size());
    for (const auto& stream : tracks[i].streams)
      for (const Item& item : stream)
        if (item.kind == Item::Kind::collective)
          (is_direct(tracks[i].exchanges[item.instruction]) ? needs[i][item.id].direct
                                                            : needs[i][item.id].ring) = true;
  }
  ranks_of_class_.resize(tracks.size());
  for (std::size_t rank = 0; rank < meetings.class_of.size(); ++rank)
    ranks_of_class_[meetings.class_of[rank]].push_back(rank);
  groups_.resize(runners.list.size());
  messages_.resize(runners.list.size());
  for (std::size_t runner = 0; runner < runners.list.size(); ++runner) {
    add_groups(runner, needs[meetings.class_of[runners.list[runner].rank]]);
    add_messages(runner);
  }
}

bool Routes::are_alike() const {
  return std::ranges::all_of(routes_, [](const Route& route) { return route.is_alike; });
}

std::uint32_t Routes::add(Route route) {
  routes_.push_back(std::move(route));
  return static_cast<std::uint32_t>(routes_.size() - 1);
}

void Routes::add_groups(std::size_t runner, const std::vector<Needs>& needs) {
  const std::size_t rank = runners_.list[runner].rank;
  const std::vector<std::uint32_t>& own = meetings_.partners(rank).groups;
  groups_[runner].resize(own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    const Ranks& members = (*meetings_.communicators)[own[i]].members;
    if (members.size() < 2) continue;
    OfGroup& group = groups_[runner][i];
    group.members = members.size();
    group.stride = stride_of(members);
    const auto find = [&](bool is_ring) {
      const std::pair<std::uint32_t, bool> key(own[i], is_ring);
      if (const auto known = of_communicator_.find(key); known != of_communicator_.end())
        return known->second;
      std::vector<const Ranks*> groups;
      if (runners_.are_all) {
        groups.push_back(&members);
      } else {
        std::vector<bool> seen(meetings_.communicators->size());
        groups.reserve(ranks_of_class_[meetings_.class_of[rank]].size() / members.size());
        for (const std::size_t sibling : ranks_of_class_[meetings_.class_of[rank]]) {
          const std::uint32_t number = meetings_.partners(sibling).groups[i];
          if (!seen[number]) groups.push_back(&(*meetings_.communicators)[number].members);
          seen[number] = true;
        }
      }
      return of_communicator_[key] = add(is_ring ? maker_.ring(groups) : maker_.direct(groups));
    };
    if (needs[i].ring) group.ring = find(true);
    if (needs[i].direct) group.direct = find(false);
  }
}

void Routes::add_messages(std::size_t runner) {
  const std::size_t rank = runners_.list[runner].rank;
  const std::vector<program::Partners::Message>& own = meetings_.partners(rank).messages;
  const program::Stops& stops = meetings_.stops(rank);
  messages_[runner].resize(own.size());
  // All messages of one tag to one peer are one channel of the class.
  std::map<std::pair<std::size_t, std::int64_t>, std::uint32_t> of_channel;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!stops.messages[i].is_send) continue;
    const std::size_t peer = own[i].peer.index();
    std::uint32_t& route = messages_[runner][i];
    if (runners_.are_all) {
      const auto [place, is_new] = of_pair_.try_emplace({rank, peer}, 0);
      const std::pair<Rank, Rank> pair(Rank(rank), own[i].peer);
      if (is_new) place->second = add(maker_.message(std::span(&pair, 1)));
      route = place->second;
      continue;
    }
    const auto [place, is_new] = of_channel.try_emplace({peer, own[i].tag}, 0);
    if (is_new) {
      std::vector<std::pair<Rank, Rank>> pairs;
      for (const std::size_t sibling : ranks_of_class_[meetings_.class_of[rank]])
        pairs.emplace_back(Rank(sibling), meetings_.partners(sibling).messages[i].peer);
      place->second = add(maker_.message(pairs));
    }
    route = place->second;
  }
}

Transfer Routes::transfer(std::size_t runner, const Item& item) const {
  const Track& track = tracks_[meetings_.class_of[runners_.list[runner].rank]];
  const ExchangeKind exchange = track.exchanges[item.instruction];
  const double payload_bytes = track.amounts[item.instruction];
  std::size_t members = 2;
  std::int64_t stride = 0;
  std::uint32_t number = 0;
  if (item.kind == Item::Kind::send) {
    const std::size_t rank = runners_.list[runner].rank;
    const auto peer =
        static_cast<std::int64_t>(meetings_.partners(rank).messages[item.id].peer.index());
    stride = std::abs(peer - static_cast<std::int64_t>(rank));
    number = messages_[runner][item.id];
  } else {
    const OfGroup& group = groups_[runner][item.id];
    members = group.members;
    stride = group.stride;
    number = is_direct(exchange) ? group.direct : group.ring;
  }
  const machine::Cluster& cluster = links_.cluster();
  const machine::MeasuredGroup* measured =
      item.kind == Item::Kind::send
          ? cluster.measured(exchange, 2, stride)
          : cluster.measured_alike(exchange, static_cast<std::int64_t>(members), stride);
  const Way way = choose_way(routes_[number], exchange, members, payload_bytes, measured);
  const double launch_s = measured == nullptr ? cluster.device.instruction_s : 0;
  return {number, launch_s + way.latency_s, way.flow_bytes * payload_bytes, way.is_tree};
}

}  // namespace fourfold::simulate
