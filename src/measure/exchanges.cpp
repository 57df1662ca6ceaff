#include "measure/exchanges.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "base/error.h"
#include "base/format.h"
#include "base/reduction.h"

namespace fourfold::measure {
namespace {

constexpr int message_tag = 1;
constexpr double long_s = 0.1;  // so long an exchange tells the rate of any link

/// The members of this rank's group; of a pair that the last ranks have no peer for, too many.
std::vector<Rank> members_of(const comm::World& world, const Exchange& exchange) {
  const auto own = static_cast<std::int64_t>(world.rank().index());
  const std::int64_t tile = exchange.ranks * exchange.stride;
  const std::int64_t first = own / tile * tile + own % exchange.stride;
  std::vector<Rank> members;
  for (std::int64_t i = 0; i < exchange.ranks; ++i)
    members.emplace_back(static_cast<std::size_t>(first + i * exchange.stride));
  return members;
}

/// There and back, so that half of it is one way.
void send_and_receive(comm::World& world, Rank peer, std::span<std::byte> bytes) {
  if (world.rank() < peer) {
    world.send(peer, message_tag, bytes);
    world.recv(peer, message_tag, bytes);
  } else {
    world.recv(peer, message_tag, bytes);
    world.send(peer, message_tag, bytes);
  }
}

}  // namespace

std::vector<Exchange> exchanges_of(std::int64_t world, std::int64_t host_ranks) {
  std::vector<Exchange> all;
  const auto add = [&](const Exchange& exchange) {
    if (std::find(all.begin(), all.end(), exchange) == all.end()) all.push_back(exchange);
  };
  for (std::int64_t ranks = 2; ranks <= world;
       ranks = std::min(2 * ranks, std::max(world, ranks + 1)))
    for (const CollectiveFacts& row : collectives)
      for (const std::int64_t stride : {std::int64_t{1}, world / ranks})
        if (world % (ranks * stride) == 0) add({row.kind, ranks, stride});
  for (const std::int64_t stride : {std::int64_t{1}, host_ranks})
    if (stride < world) add({message_of_two, 2, stride});
  return all;
}

std::vector<std::int64_t> usual_sizes() {
  return {1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24};
}
std::vector<std::int64_t> quick_sizes() {
  return {1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14};
}

double ring_share(const Exchange& exchange) {
  return exchange.kind ? facts_of(*exchange.kind).sent_share(static_cast<double>(exchange.ranks))
                       : 1;
}

Sides sides_of(Collective kind, comm::Bytes from, comm::Bytes to, std::size_t members) {
  const CollectiveFacts& facts = facts_of(kind);
  const comm::Bytes after = facts.is_in_place() ? from : to;
  return {from.first(facts.bytes_before(from.size(), members)),
          after.first(facts.bytes_after(after.size(), members))};
}

void HostCarrier::prepare(const Exchange& exchange, const std::vector<Rank>& members,
                          std::int64_t most_bytes) {
  kind_ = exchange.kind;
  members_ = members;
  memory_.resize(static_cast<std::size_t>(2 * most_bytes));
  if (!kind_) return;
  const comm::GroupSpec spec{format("bench {} {}", exchange.ranks, exchange.stride), members,
                             most_bytes};
  world_.create_groups({&spec, 1});
  group_ = &world_.group(members, spec.name);
}

void HostCarrier::call(std::size_t bytes) {
  const std::span<std::byte> from(memory_.data(), bytes), to(from.data() + bytes, bytes);
  if (!kind_) return send_and_receive(world_, members_[members_[0] == world_.rank() ? 1 : 0], from);
  const Sides sides = sides_of(*kind_, from, to, members_.size());
  group_->carry_out(*kind_, {&sides.from, 1}, {&sides.to, 1}, DType::f32, Reduction::sum);
}

ExchangeTimes measure_exchange(comm::World& world, Carrier& carrier, const Exchange& exchange,
                               const std::vector<std::int64_t>& sizes_bytes, double seconds_each) {
  const std::int64_t even = exchange.ranks * size_bytes(DType::f32);
  const std::vector<Rank> members = members_of(world, exchange);
  const bool has_peer = members.back().index() < world.size();
  require(has_peer || !exchange.kind, "groups tile the ranks");
  carrier.prepare(exchange, members,
                  *std::max_element(sizes_bytes.begin(), sizes_bytes.end()) + even);
  ExchangeTimes times{exchange, {}, 0, {}};
  std::vector<double> spreads;
  const double ways = exchange.kind ? 1 : 2;
  for (const std::int64_t size : sizes_bytes) {
    const std::int64_t bytes = std::max(size / even, std::int64_t{1}) * even;
    if (!times.samples.empty() && times.samples.back().bytes == static_cast<double>(bytes))
      continue;
    const Timing timing = time_together(
        world, seconds_each,
        [&] {
          if (has_peer) carrier.call(static_cast<std::size_t>(bytes));
        },
        [&] { carrier.settle(); });
    times.samples.push_back({static_cast<double>(bytes), timing.median_s / ways});
    spreads.push_back(timing.spread());
    if (times.samples.size() > 1 && timing.median_s > long_s) break;
  }
  std::sort(spreads.begin(), spreads.end());
  times.spread = spreads[spreads.size() / 2];
  const TimedBytes& first = times.samples.front();
  times.fit = times.samples.size() == 1 ? LineFit{0, first.bytes / first.seconds, 0}
                                        : fit_line(times.samples);
  return times;
}

ExchangeTimes measure_exchange(comm::World& world, const Exchange& exchange,
                               const std::vector<std::int64_t>& sizes_bytes, double seconds_each) {
  HostCarrier carrier(world);
  return measure_exchange(world, carrier, exchange, sizes_bytes, seconds_each);
}

}  // namespace fourfold::measure
