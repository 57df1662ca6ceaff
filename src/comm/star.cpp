#include "comm/star.h"

#include <poll.h>

#include <algorithm>
#include <charconv>
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
/// How long one attempt, one answer and the first word of a caller may take.
constexpr double attempt_s = 2;

// What messages are.
constexpr char hello = 'H', welcome = 'W';

/// "KEY PORT ADDRESS ADDRESS ...". The key keeps strangers out, who scan ports or belong to another
/// job.
std::string invitation_to(const Listener& listener) {
  std::random_device random;
  return format("{}-{} {} {}", random(), random(), listener.port(), join(own_addresses(), " "));
}

/// Somebody who connected and has not said yet who it is.
struct Caller {
  Connection connection;
  double since_s;
};
/// More at a time are not listened to; the oldest ones are left.
constexpr std::size_t most_callers = 256;

/// Nothing where this is not what a rank of this job says first.
std::optional<std::size_t> rank_of_hello(const Message& message, const std::string& key,
                                         std::size_t size) {
  const std::vector<std::string> words = split(message.text, ' ');
  if (message.kind != hello || words.size() != 2 || words[0] != key) return std::nullopt;
  std::size_t rank = 0;
  const char* const end = words[1].data() + words[1].size();
  const auto [stop, error] = std::from_chars(words[1].data(), end, rank);
  if (error != std::errc() || stop != end || rank == 0 || rank >= size) return std::nullopt;
  return rank;
}

/// Waits until somebody connects or speaks, for a beat at most.
void wait_for_news(const Listener& listener, const std::vector<Caller>& callers) {
  constexpr int beat_ms = 100;
  std::vector<pollfd> entries{{listener.number(), POLLIN, 0}};
  for (const Caller& caller : callers) entries.push_back({caller.connection.number(), POLLIN, 0});
  ::poll(entries.data(), entries.size(), beat_ms);
}

/// True if there is nothing more to hear from this caller. A rank may call again, where it was not
/// answered in time: its last call counts.
bool is_done_with(Caller& caller, const std::string& key, std::vector<Connection>& connections) {
  bool ended = false;
  const std::vector<Message> messages = caller.connection.receive(ended);
  if (messages.empty()) return ended || now_s() - caller.since_s > attempt_s;
  if (const auto rank = rank_of_hello(messages.front(), key, connections.size())) {
    caller.connection.send({welcome, key});
    connections[*rank] = std::move(caller.connection);
  }
  return true;
}

}  // namespace

Message hello_of(const std::string& key, Rank rank) {
  return {hello, format("{} {}", key, rank.index())};
}

std::size_t accept_ranks(Listener& listener, const std::string& key, double patience_s,
                         std::vector<Connection>& connections) {
  std::vector<Caller> callers;
  const auto connected = [&] {
    return static_cast<std::size_t>(std::ranges::count_if(connections, &Connection::is_open));
  };
  const double deadline = now_s() + patience_s;
  while (connected() + 1 < connections.size() && now_s() < deadline) {
    wait_for_news(listener, callers);
    if (auto connection = listener.accept(0)) {
      if (callers.size() == most_callers) callers.erase(callers.begin());
      callers.push_back({std::move(*connection), now_s()});
    }
    std::erase_if(callers, [&](Caller& caller) { return is_done_with(caller, key, connections); });
  }
  return connected();
}

namespace {

std::optional<Connection> call_root(const std::vector<std::string>& invitation, Rank rank,
                                    bool same_host) {
  const auto port = static_cast<std::uint16_t>(std::stoul(invitation[1]));
  const double deadline = now_s() + connect_s;
  while (now_s() < deadline) {
    for (std::size_t i = 2; i < invitation.size(); ++i) {
      if (!same_host && invitation[i].starts_with("127.")) continue;
      auto connection = connect_to(invitation[i], port, attempt_s);
      if (!connection) continue;
      connection->send(hello_of(invitation[0], rank));
      const auto answer = receive_one(*connection, attempt_s);
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
    connected =
        static_cast<std::int64_t>(accept_ranks(*listener, invitation[0], connect_s, connections));
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
