// Messages between threads: the receiver copies from the sender's buffer, which waits for it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

namespace fourfold::comm {

/// One for all ranks of a job. Messages of the same sender, receiver and tag arrive in the order in
/// which they were sent. Nothing is allocated after construction.
class Mail {
 public:
  explicit Mail(std::size_t ranks);

  /// Returns when the receiver has taken the bytes. Errors: Aborted.
  void send(std::size_t from, std::size_t to, int tag, std::span<const std::byte> bytes);
  /// Errors: Aborted; UserError(ranks_disagree) where the message has another size.
  void recv(std::size_t from, std::size_t to, int tag, std::span<std::byte> bytes);

  /// All who wait for a peer get Aborted, from now on.
  void call_off();

 private:
  struct Letter {
    std::size_t from;
    int tag;
    std::span<const std::byte> bytes;
    enum class State { waiting, taken, done } state = State::waiting;
    Letter* next = nullptr;
  };
  /// The messages for one receiver.
  struct Box {
    std::mutex mutex;
    std::condition_variable changed;
    Letter* first = nullptr;  // letters live on their senders' stacks
    bool called_off = false;

    void append(Letter& letter);
    Letter* take(std::size_t from, int tag);  // and remove it
    void remove(Letter& letter);
  };

  std::unique_ptr<Box[]> boxes_;
  std::size_t ranks_;
};

}  // namespace fourfold::comm
