// Messages over TCP between the processes of one job, apart from MPI: they still arrive when MPI
// hangs. Not for tensors, and not for strangers: who connects must know the job's key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"

namespace fourfold::comm {

struct Message {
  char kind = 0;
  std::string text;
};

/// One end of a stream of messages. Neither call waits.
class Connection {
 public:
  Connection() = default;
  explicit Connection(Descriptor socket);

  bool is_open() const { return socket_.is_open(); }
  int number() const { return socket_.number(); }
  /// Sends what the system takes now, and the rest with later calls. A peer that is gone shows in
  /// `receive`.
  void send(const Message& message);
  void flush();
  bool has_unsent() const { return !unsent_.empty(); }
  /// Messages that arrived. `ended` becomes true when the other end is closed, its process is dead
  /// or what it sends is no message.
  std::vector<Message> receive(bool& ended);
  void close() { socket_ = Descriptor(); }

 private:
  Descriptor socket_;
  std::string unsent_, received_;
};

/// Waits for connections on a free port of all addresses of this host.
class Listener {
 public:
  /// Errors: UserError(environment).
  Listener();
  int number() const { return socket_.number(); }
  std::uint16_t port() const { return port_; }
  std::optional<Connection> accept(double timeout_s);

 private:
  Descriptor socket_;
  std::uint16_t port_ = 0;
};

/// The IPv4 addresses of this host, loopback last.
std::vector<std::string> own_addresses();
/// Nothing where nobody answers in time.
std::optional<Connection> connect_to(const std::string& address, std::uint16_t port,
                                     double timeout_s);
/// Waits for one message. Nothing where none comes in time.
std::optional<Message> receive_one(Connection& connection, double timeout_s);

}  // namespace fourfold::comm
