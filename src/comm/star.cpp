#include "comm/star.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "comm/clock.h"

namespace fourfold::comm {
namespace {

/// How long ranks have to connect, all together: hosts may answer late just after a job's start.
constexpr double connect_s = 20;
/// How long one attempt, and one answer, may take.
constexpr double attempt_s = 2;

// What messages are.
constexpr char hello = 'H', welcome = 'W';

/// "KEY PORT ADDRESS ADDRESS ...". The key keeps strangers out, who scan ports or belong to another
/// job.
std::string invitation_to(const Listener& listener) {
  std::random_device random;
  return format("{}-{} {} {}", random(), random(), listener.port(), join(own_addresses(), " "));
}

/// How many ranks connected.
std::int64_t accept_all(Listener& listener, const std::string& key,
                        std::vector<Connection>& connections) {
  const std::size_t size = connections.size();
  std::int64_t count = 0;
  const double deadline = now_s() + connect_s;
  while (count + 1 < static_cast<std::int64_t>(size) && now_s() < deadline) {
    auto connection = listener.accept(attempt_s);
    if (!connection) continue;
    const auto message = receive_one(*connection, attempt_s);
    if (!message || message->kind != hello) continue;
    const std::vector<std::string> words = split(message->text, ' ');
    if (words.size() != 2 || words[0] != key) continue;
    const auto rank = static_cast<std::size_t>(std::stoull(words[1]));
    if (rank == 0 || rank >= size || connections[rank].is_open()) continue;
    connection->send({welcome, key});
    connections[rank] = std::move(*connection);
    ++count;
  }
  return count;
}

std::optional<Connection> call_root(const std::vector<std::string>& invitation, Rank rank,
                                    bool same_host) {
  const auto port = static_cast<std::uint16_t>(std::stoul(invitation[1]));
  const double deadline = now_s() + connect_s;
  while (now_s() < deadline) {
    for (std::size_t i = 2; i < invitation.size(); ++i) {
      if (!same_host && invitation[i].starts_with("127.")) continue;
      auto connection = connect_to(invitation[i], port, attempt_s);
      if (!connection) continue;
      connection->send({hello, format("{} {}", invitation[0], rank.index())});
      const auto answer = receive_one(*connection, connect_s);
      if (answer && answer->kind == welcome && answer->text == invitation[0]) return connection;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  return std::nullopt;
}

}  // namespace

std::vector<Connection> connect_star(World& world, const std::vector<std::string>& hosts) {
  const std::size_t size = world.size();
  const bool is_root = world.rank() == Rank(0);
  std::vector<Connection> connections(size);
  if (size == 1) return connections;
  std::optional<Listener> listener;
  if (is_root) listener.emplace();
  const std::string text = world.broadcast(is_root ? invitation_to(*listener) : "");
  const std::vector<std::string> invitation = split(text, ' ');
  std::int64_t connected = 0;
  if (is_root) {
    connected = accept_all(*listener, invitation[0], connections);
  } else if (auto root =
                 call_root(invitation, world.rank(), hosts[world.rank().index()] == hosts[0])) {
    connections[0] = std::move(*root);
    connected = 1;
  }
  world.all_reduce({&connected, 1}, Reduction::sum);
  if (connected == static_cast<std::int64_t>(2 * (size - 1))) return connections;
  return std::vector<Connection>(size);
}

}  // namespace fourfold::comm
