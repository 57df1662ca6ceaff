#include "comm/stop_request.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/format.h"
#include "comm/clock.h"

namespace fourfold::comm {
namespace {

constexpr std::array stop_signals = {SIGTERM, SIGINT, SIGUSR1, SIGUSR2};
/// Schedulers, launchers and shells pass one request on by several ways, some twice.
constexpr double same_request_s = 1;

/// A message to the thread that listens: a signal and when it came, or one of two other numbers.
struct News {
  int signal = 0;
  double time_s = 0;
};
constexpr int enough = 0;   // nobody listens any more
constexpr int follow = -1;  // another thread has taken the first signal

/// The handler of signals writes here. -1: nobody listens.
std::atomic<int> pipe_end{-1};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may read the descriptor");

/// Writes all of so few bytes or, where the pipe is full of signals that say as much, none.
void tell(int signal) {
  const News news{signal, now_s()};
  const int number = pipe_end.load();
  if (number >= 0) [[maybe_unused]]
    const ssize_t sent = ::write(number, &news, sizeof(news));
}

extern "C" void on_stop_signal(int signal) {
  const int error = errno;
  tell(signal);
  errno = error;
}

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : stop_signals) sigaddset(&set, signal);
  return set;
}

void handle_stop_signals(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : stop_signals) ::sigaction(signal, &action, nullptr);
}

[[noreturn]] void end_by(int signal) {
  ::signal(signal, SIG_DFL);
  const sigset_t set = stop_set();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::kill(::getpid(), signal);
  ::pause();
  ::_exit(128 + signal);
}

}  // namespace

void hold_stop_signals() {
  const sigset_t set = stop_set();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

void release_stop_signals() {
  const sigset_t set = stop_set();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

class StopRequest::State {
 public:
  explicit State(Ways ways) : ways_(std::move(ways)) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw UserError(ExitCode::environment,
                      format("no pipe for signals: {}", std::strerror(errno)));
    read_end_ = Descriptor(ends[0]);
    write_end_ = Descriptor(ends[1]);
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    pipe_end.store(ends[1]);
    alive_.store(this);
    thread_ = std::thread([this] { listen(); });
    handle_stop_signals(on_stop_signal);
    release_stop_signals();
  }

  ~State() {
    // A process that leaves has nothing more to lose, and is not to end by a signal's name.
    handle_stop_signals(phase_ == Phase::leaving ? SIG_IGN : SIG_DFL);
    tell(enough);
    thread_.join();
    alive_.store(nullptr);
    pipe_end.store(-1);
  }

  const std::atomic<bool>& flag() const { return is_asked_; }

  void set_end_unsaved(std::function<void()> end) {
    const std::lock_guard lock(mutex_);
    ways_.end_unsaved = std::move(end);
  }

  void begin_saving() {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::start) phase_ = Phase::saving;
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::leaving;
  }

  Meaning take(double time_s) {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::leaving) return Meaning::nothing;
    if (!first_s_) {
      first_s_ = time_s;
      is_asked_ = true;
      return Meaning::first;
    }
    return time_s - *first_s_ < same_request_s ? Meaning::same : Meaning::again;
  }

  /// Does what a request wants besides setting the flag.
  void do_as_asked() {
    std::function<void()> end;
    {
      const std::lock_guard lock(mutex_);
      if (phase_ == Phase::start) end = ways_.end_unsaved;
    }
    if (ways_.heard) ways_.heard();
    if (end) return end();
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, ways_.answer.data(), ways_.answer.size());
  }

  static State* alive() { return alive_.load(); }

 private:
  enum class Phase : std::uint8_t { start, saving, leaving };

  void listen() {
    News news;
    while (true) {
      const ssize_t got = ::read(read_end_.number(), &news, sizeof(news));
      if (got < 0 && errno == EINTR) continue;
      if (got != sizeof(news) || news.signal == enough) return;
      const Meaning meaning = news.signal == follow ? Meaning::first : take(news.time_s);
      if (meaning == Meaning::first) do_as_asked();
      if (meaning == Meaning::again) end_by(news.signal);
    }
  }

  static std::atomic<State*> alive_;

  Ways ways_;  // the function under mutex_
  Descriptor read_end_, write_end_;
  std::atomic<bool> is_asked_{false};
  std::mutex mutex_;
  Phase phase_ = Phase::start;     // under mutex_
  std::optional<double> first_s_;  // under mutex_: when the request came
  std::thread thread_;
};

std::atomic<StopRequest::State*> StopRequest::State::alive_{nullptr};

StopRequest::StopRequest(Ways ways) : state_(std::make_unique<State>(std::move(ways))) {}

StopRequest::~StopRequest() = default;

const std::atomic<bool>& StopRequest::flag() const {
  return state_->flag();
}

void StopRequest::set_end_unsaved(std::function<void()> end) {
  state_->set_end_unsaved(std::move(end));
}

void StopRequest::begin_saving() {
  state_->begin_saving();
}

void StopRequest::leave() {
  state_->leave();
}

StopRequest::Meaning StopRequest::take() {
  State* const state = State::alive();
  if (state == nullptr) return Meaning::again;
  const Meaning meaning = state->take(now_s());
  if (meaning == Meaning::first) tell(follow);
  return meaning;
}

}  // namespace fourfold::comm
