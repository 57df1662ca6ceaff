#include "comm/stop_request.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace fourfold::comm {
namespace {

std::atomic<bool> is_asked{false};
std::atomic<const char*> answer_text{nullptr};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set the flag");
static_assert(std::atomic<const char*>::is_always_lock_free, "a signal handler may read the text");
constexpr std::array stop_signals = {SIGUSR1, SIGTERM, SIGINT};

extern "C" void ask_to_stop(int signal) {
  // Nothing but what is allowed in a handler.
  if (!is_asked.exchange(true)) {
    const char* const text = answer_text;
    if (text == nullptr) return;
    const int error = errno;
    // Nobody can be told where this fails.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
    errno = error;
    return;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

StopRequest::StopRequest(const char* answer) {
  is_asked = false;
  answer_text = answer;
  for (const int signal : stop_signals) std::signal(signal, ask_to_stop);
}

StopRequest::~StopRequest() {
  for (const int signal : stop_signals) std::signal(signal, SIG_DFL);
}

const std::atomic<bool>& StopRequest::flag() const {
  return is_asked;
}

bool StopRequest::ask() {
  return !is_asked.exchange(true);
}

}  // namespace fourfold::comm
