#include "cli/stop_request.h"

#include <csignal>

namespace fourfold::cli {
namespace {

std::atomic<bool> is_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set the flag");

extern "C" void ask_to_stop(int signal) {
  // Nothing but what is allowed in a handler.
  if (!is_asked.exchange(true)) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

StopRequest::StopRequest() {
  is_asked = false;
  for (const int signal : {SIGUSR1, SIGTERM}) std::signal(signal, ask_to_stop);
}

StopRequest::~StopRequest() {
  for (const int signal : {SIGUSR1, SIGTERM}) std::signal(signal, SIG_DFL);
}

const std::atomic<bool>& StopRequest::flag() const {
  return is_asked;
}

bool StopRequest::ask() {
  return !is_asked.exchange(true);
}

}  // namespace fourfold::cli
