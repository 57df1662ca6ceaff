#include "comm/connection.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "comm/clock.h"

namespace fourfold::comm {
namespace {

/// A message on the wire: kind (1 byte), length (4 bytes, little-endian), text. States of ranks are
/// the largest, some KiB.
constexpr std::size_t header_bytes = 5, largest_text = std::size_t{1} << 20;

bool wait_for(int number, short events, double timeout_s) {
  pollfd poll_entry{number, events, 0};
  return ::poll(&poll_entry, 1, static_cast<int>(1000 * timeout_s)) == 1 &&
         (poll_entry.revents & events) != 0;
}

void prepare_socket(int number) {
  const int yes = 1;
  ::setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

}  // namespace

Connection::Connection(Descriptor socket) : socket_(std::move(socket)) {
  prepare_socket(socket_.number());
}

void Connection::send(const Message& message) {
  const auto length = static_cast<std::uint32_t>(message.text.size());
  unsent_ += message.kind;
  for (int shift = 0; shift < 32; shift += 8) unsent_ += static_cast<char>(length >> shift);
  unsent_ += message.text;
  flush();
}

void Connection::flush() {
  while (!unsent_.empty() && is_open()) {
    const ssize_t sent =
        ::send(number(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) unsent_.clear();  // nobody will read it
    if (sent > 0) unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

std::vector<Message> Connection::receive(bool& ended) {
  std::array<char, 4096> piece{};
  // Who sends without a pause is heard by turns.
  for (std::size_t taken = 0; taken < largest_text; taken += piece.size()) {
    const ssize_t got = ::recv(number(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      ended = true;
      break;
    }
    received_.append(piece.data(), static_cast<std::size_t>(got));
  }
  std::vector<Message> messages;
  std::size_t at = 0;
  while (received_.size() - at >= header_bytes) {
    std::uint32_t length = 0;
    for (std::size_t i = 0; i < 4; ++i)
      length |= std::uint32_t{static_cast<unsigned char>(received_[at + 1 + i])} << (8 * i);
    if (length > largest_text) {
      ended = true;
      break;
    }
    if (received_.size() - at - header_bytes < length) break;
    messages.push_back({received_[at], received_.substr(at + header_bytes, length)});
    at += header_bytes + length;
  }
  received_.erase(0, at);
  return messages;
}

Listener::Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_ANY);
  auto* const name = reinterpret_cast<sockaddr*>(&where);
  socklen_t size = sizeof where;
  if (!socket_.is_open() || ::bind(number(), name, size) != 0 || ::listen(number(), 128) != 0 ||
      ::getsockname(number(), name, &size) != 0)
    throw UserError(
        ExitCode::environment,
        format("this host gives no TCP port for watching ranks: {}", std::strerror(errno)));
  port_ = ntohs(where.sin_port);
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> list;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return list;
  for (const ifaddrs* entry = all; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    const auto* const where = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
    std::array<char, INET_ADDRSTRLEN> text{};
    ::inet_ntop(AF_INET, &where->sin_addr, text.data(), text.size());
    list.emplace_back(text.data());
  }
  ::freeifaddrs(all);
  std::ranges::stable_partition(list, [](const auto& a) { return !a.starts_with("127."); });
  return list;
}

std::optional<Connection> Listener::accept(double timeout_s) {
  if (!wait_for(number(), POLLIN, timeout_s)) return std::nullopt;
  Descriptor socket(::accept4(number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.is_open()) return std::nullopt;
  return Connection(std::move(socket));
}

std::optional<Connection> connect_to(const std::string& address, std::uint16_t port,
                                     double timeout_s) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &where.sin_addr) != 1) return std::nullopt;
  Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return std::nullopt;
  const auto* const name = reinterpret_cast<const sockaddr*>(&where);
  if (::connect(socket.number(), name, sizeof where) != 0) {
    if (errno != EINPROGRESS || !wait_for(socket.number(), POLLOUT, timeout_s)) return std::nullopt;
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return std::nullopt;
  }
  return Connection(std::move(socket));
}

std::optional<Message> receive_one(Connection& connection, double timeout_s) {
  bool ended = false;
  const double deadline = now_s() + timeout_s;
  while (!ended && wait_for(connection.number(), POLLIN, std::max(0.0, deadline - now_s()))) {
    auto messages = connection.receive(ended);
    if (!messages.empty()) return std::move(messages.front());
  }
  return std::nullopt;
}

}  // namespace fourfold::comm
