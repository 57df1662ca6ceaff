#include "measure/exchanges.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/error.h"
#include "base/format.h"

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

/// One call of an exchange on memory of its own: two halves, so that all kinds have room.
class Caller {
 public:
  Caller(comm::World& world, const Exchange& exchange, std::int64_t most_bytes)
      : world_(world),
        kind_(exchange.kind),
        members_(members_of(world, exchange)),
        memory_(static_cast<std::size_t>(2 * most_bytes)) {
    has_peer_ = members_.back().index() < world.size();
    if (kind_ == "send") return;
    require(has_peer_, "groups tile the ranks");
    const comm::GroupSpec spec{format("bench {} {}", exchange.ranks, exchange.stride), members_,
                               most_bytes};
    world.create_groups({&spec, 1});
    group_ = &world.group(members_, spec.name);
  }

  void call(std::size_t bytes) {
    const std::span<std::byte> from(memory_.data(), bytes), to(from.data() + bytes, bytes);
    const std::size_t share = bytes / members_.size();
    if (!has_peer_) return;  // a last rank of an odd number
    if (kind_ == "send")
      send_and_receive(world_, members_[members_[0] == world_.rank() ? 1 : 0], from);
    else if (kind_ == "all_reduce")
      group_->all_reduce(from, DType::f32, Reduction::sum);
    else if (kind_ == "reduce_scatter")
      group_->reduce_scatter(from, to.first(share), DType::f32, Reduction::sum);
    else if (kind_ == "all_gather")
      group_->all_gather(from.first(share), to);
    else if (kind_ == "all_to_all")
      group_->all_to_all(from, to);
    else
      fail_internal("an exchange is of a kind that machines list");
  }

 private:
  comm::World& world_;
  std::string kind_;
  std::vector<Rank> members_;
  std::vector<std::byte> memory_;
  bool has_peer_ = true;
  comm::Group* group_ = nullptr;
};

}  // namespace

std::vector<Exchange> exchanges_of(std::int64_t world, std::int64_t host_ranks) {
  std::vector<Exchange> all;
  const auto add = [&](const Exchange& exchange) {
    if (std::find(all.begin(), all.end(), exchange) == all.end()) all.push_back(exchange);
  };
  for (std::int64_t ranks = 2; ranks <= world;
       ranks = std::min(2 * ranks, std::max(world, ranks + 1)))
    for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"})
      for (const std::int64_t stride : {std::int64_t{1}, world / ranks})
        if (world % (ranks * stride) == 0) add({kind, ranks, stride});
  for (const std::int64_t stride : {std::int64_t{1}, host_ranks})
    if (stride < world) add({"send", 2, stride});
  return all;
}

ExchangeTimes measure_exchange(comm::World& world, const Exchange& exchange,
                               const std::vector<std::int64_t>& sizes_bytes, double seconds_each) {
  const std::int64_t even = exchange.ranks * size_bytes(DType::f32);
  Caller caller(world, exchange, *std::max_element(sizes_bytes.begin(), sizes_bytes.end()) + even);
  ExchangeTimes times{exchange, {}, 0, {}};
  std::vector<double> spreads;
  const double ways = exchange.kind == "send" ? 2 : 1;
  for (const std::int64_t size : sizes_bytes) {
    const std::int64_t bytes = std::max(size / even, std::int64_t{1}) * even;
    const Timing timing =
        time_together(world, seconds_each, [&] { caller.call(static_cast<std::size_t>(bytes)); });
    times.samples.push_back({static_cast<double>(bytes), timing.median_s / ways});
    spreads.push_back(timing.spread());
    if (times.samples.size() > 1 && timing.median_s > long_s) break;
  }
  std::sort(spreads.begin(), spreads.end());
  times.spread = spreads[spreads.size() / 2];
  times.fit = fit_line(times.samples);
  return times;
}

}  // namespace fourfold::measure
