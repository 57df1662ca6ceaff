#include "run/clock_offset.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "base/error.h"

namespace fourfold::run {
namespace {

// The first few also warm the path up.
constexpr std::size_t num_pings = 32;
constexpr int ping_tag = 0;

using Number = std::array<std::int64_t, 1>;

void send(comm::World& world, Rank peer, std::int64_t value) {
  const Number number{value};
  world.send(peer, ping_tag, std::as_bytes(std::span(number)));
}

std::int64_t recv(comm::World& world, Rank peer) {
  Number number{};
  world.recv(peer, ping_tag, std::as_writable_bytes(std::span(number)));
  return number[0];
}

std::int64_t measure(comm::World& world, Rank peer, const std::function<std::int64_t()>& now_ns) {
  std::array<Ping, num_pings> pings;
  for (Ping& ping : pings) {
    ping.sent_ns = now_ns();
    send(world, peer, 0);
    ping.remote_ns = recv(world, peer);
    ping.received_ns = now_ns();
  }
  return estimate_offset_ns(pings);
}

}  // namespace

std::int64_t estimate_offset_ns(std::span<const Ping> pings) {
  require(!pings.empty(), "a clock is compared by at least one ping");
  const auto round_trip = [](const Ping& ping) { return ping.received_ns - ping.sent_ns; };
  const Ping& best = *std::ranges::min_element(pings, {}, round_trip);
  return best.sent_ns + round_trip(best) / 2 - best.remote_ns;
}

std::int64_t clock_offset_ns(comm::World& world, const std::string& clock,
                             const std::function<std::int64_t()>& now_ns) {
  const std::vector<std::string> clocks = world.all_gather(clock);
  const auto is_apart = [&](std::size_t rank) {
    return rank != 0 && (clocks[rank].empty() || clocks[rank] != clocks[0]);
  };
  if (world.rank().index() != 0) {
    if (!is_apart(world.rank().index())) return 0;
    for (std::size_t i = 0; i < num_pings; ++i) {
      recv(world, Rank(0));
      send(world, Rank(0), now_ns());
    }
    return recv(world, Rank(0));
  }
  for (std::size_t rank = 1; rank < world.size(); ++rank)
    if (is_apart(rank)) send(world, Rank(rank), measure(world, Rank(rank), now_ns));
  return 0;
}

std::string clock_of_host() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace fourfold::run
