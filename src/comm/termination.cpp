#include "comm/termination.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::comm {
namespace {

// What a signal handler can reach. -1: nobody listens.
std::atomic<int> ring_descriptor{-1};
std::atomic<int> terms{0};

void on_sigterm(int) {
  const int saved = errno;
  terms.fetch_add(1);
  const char byte = 't';
  if (const int number = ring_descriptor.load(); number >= 0) [[maybe_unused]]
    const ssize_t sent = ::write(number, &byte, 1);
  errno = saved;
}

struct sigaction handle_sigterm(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  struct sigaction before{};
  ::sigaction(SIGTERM, &action, &before);
  return before;
}

}  // namespace

Alarm::Alarm() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0)
    throw UserError(ExitCode::environment,
                    format("no pipe for watching ranks: {}", std::strerror(errno)));
  read_end_ = Descriptor(ends[0]);
  write_end_ = Descriptor(ends[1]);
  terms.store(0);
  ring_descriptor.store(write_end_.number());
  before_ = handle_sigterm(on_sigterm);
}

Alarm::~Alarm() {
  ::sigaction(SIGTERM, &before_, nullptr);
  ring_descriptor.store(-1);
}

void Alarm::ring() const {
  const char byte = 'w';
  [[maybe_unused]] const ssize_t sent = ::write(write_end_.number(), &byte, 1);
}

int Alarm::answer() {
  std::array<char, 64> bytes{};
  while (::read(number(), bytes.data(), bytes.size()) > 0) {
  }
  return terms.exchange(0);
}

void end_by_sigterm() {
  handle_sigterm(SIG_DFL);
  ::raise(SIGTERM);
  std::_Exit(128 + SIGTERM);
}

void ignore_broken_pipes() {
  ::signal(SIGPIPE, SIG_IGN);
}

void kill_later(std::int64_t pid) {
  if (::fork() != 0) return;
  // The child of a process with threads: only calls that are safe in signal handlers.
  ::setsid();
  for (int number = 0; number < 1024; ++number) ::close(number);
  ::sleep(1);
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  ::_exit(0);
}

}  // namespace fourfold::comm
