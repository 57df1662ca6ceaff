#include "comm/termination.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "base/styled_text.h"

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

void say_on_stderr(std::string_view line) {
  const std::string text = without_controls(line) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

namespace {

constexpr std::int64_t turns_in_a_second = 20;
/// A process that ends for a fault writes a file and says its last words; a disk may be slow.
constexpr std::int64_t most_turns_to_leave = 10 * turns_in_a_second;

bool exists(pid_t pid) {
  return ::kill(pid, 0) == 0 || errno != ESRCH;
}

/// True in the child: it belongs to no terminal and holds no file. A child of a process
/// with threads may only make calls that are safe in signal handlers.
bool fork_detached() {
  if (::fork() != 0) return false;
  ::setsid();
  for (int number = 0; number < 1024; ++number) ::close(number);
  return true;
}

}  // namespace

void kill_later(std::int64_t pid) {
  const pid_t self = ::getpid(), victim = static_cast<pid_t>(pid);
  if (!fork_detached()) return;
  const timespec turn{0, 1'000'000'000 / turns_in_a_second};
  // Until its parent has asked how it ended, a process that is gone has its number still.
  for (std::int64_t i = 0; exists(self) && i < most_turns_to_leave; ++i)
    ::nanosleep(&turn, nullptr);
  // A parent that is not the launcher itself, such as a shell, needs a moment to end as well.
  for (std::int64_t i = 0; exists(victim) && i < turns_in_a_second; ++i)
    ::nanosleep(&turn, nullptr);
  ::kill(victim, SIGKILL);
  ::_exit(0);
}

void see_off_this_process(double patience_s) {
  const pid_t parent = ::getpid();
  if (!fork_detached()) return;
  const timespec turn{0, 1'000'000'000 / turns_in_a_second};
  const auto turns = static_cast<std::int64_t>(patience_s * turns_in_a_second);
  for (std::int64_t i = 1; ::getppid() == parent; ++i) {
    ::nanosleep(&turn, nullptr);
    if (i % turns_in_a_second == 0) ::kill(parent, i < turns ? SIGCONT : SIGKILL);
  }
  ::_exit(0);
}

}  // namespace fourfold::comm
