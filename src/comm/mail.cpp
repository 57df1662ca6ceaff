#include "comm/mail.h"

#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "comm/world.h"

namespace fourfold::comm {

Mail::Mail(std::size_t ranks) : boxes_(std::make_unique<Box[]>(ranks)), ranks_(ranks) {}

void Mail::Box::append(Letter& letter) {
  Letter** end = &first;
  while (*end != nullptr) end = &(*end)->next;
  *end = &letter;
}

Mail::Letter* Mail::Box::take(std::size_t from, int tag) {
  for (Letter* letter = first; letter != nullptr; letter = letter->next)
    if (letter->from == from && letter->tag == tag) {
      remove(*letter);
      letter->state = Letter::State::taken;
      return letter;
    }
  return nullptr;
}

void Mail::Box::remove(Letter& letter) {
  Letter** link = &first;
  while (*link != &letter) link = &(*link)->next;
  *link = letter.next;
}

void Mail::send(std::size_t from, std::size_t to, int tag, std::span<const std::byte> bytes) {
  require(to < ranks_, "a message goes to a rank of this job");
  Box& box = boxes_[to];
  Letter letter{from, tag, bytes};
  std::unique_lock lock(box.mutex);
  if (box.called_off) throw Aborted();
  box.append(letter);
  box.changed.notify_all();
  // Once taken, the bytes are being read: the sender stays until that is done.
  box.changed.wait(lock, [&] {
    return letter.state == Letter::State::done ||
           (box.called_off && letter.state == Letter::State::waiting);
  });
  if (letter.state == Letter::State::done) return;
  box.remove(letter);
  throw Aborted();
}

void Mail::recv(std::size_t from, std::size_t to, int tag, std::span<std::byte> bytes) {
  require(from < ranks_, "a message comes from a rank of this job");
  Box& box = boxes_[to];
  std::unique_lock lock(box.mutex);
  Letter* letter = nullptr;
  box.changed.wait(lock, [&] {
    if (!box.called_off) letter = box.take(from, tag);
    return letter != nullptr || box.called_off;
  });
  if (letter == nullptr) throw Aborted();
  lock.unlock();
  const std::size_t sent = letter->bytes.size();
  if (sent == bytes.size() && sent > 0) std::memcpy(bytes.data(), letter->bytes.data(), sent);
  lock.lock();
  letter->state = Letter::State::done;
  box.changed.notify_all();
  lock.unlock();
  if (sent != bytes.size())
    throw UserError(ExitCode::ranks_disagree,
                    format("rank {} sends {} bytes to rank {} with tag {}, which expects {}; their "
                           "programs do not fit together",
                           from, sent, to, tag, bytes.size()));
}

void Mail::call_off() {
  for (std::size_t i = 0; i < ranks_; ++i) {
    const std::lock_guard lock(boxes_[i].mutex);
    boxes_[i].called_off = true;
    boxes_[i].changed.notify_all();
  }
}

}  // namespace fourfold::comm
