#include "comm/launch.h"

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <thread>

#include "base/error.h"
#include "comm/monitor.h"
#include "comm/mpi.h"
#include "comm/start_watch.h"
#include "comm/threads.h"

namespace fourfold::comm {
namespace {

MonitorOptions monitor_options(const LaunchOptions& options) {
  MonitorOptions result;
  result.watchdog_s = options.watchdog_s;
  result.status_folder = options.status_folder;
  result.before_exit = options.flush;
  result.ask_to_stop = options.ask_to_stop;
  result.ended = options.ended;
  return result;
}

/// Makes a check whose fault all ranks find before they can talk: the first one says it, the others
/// leave a little later, for a launcher ends all when one does.
void said_once(const LauncherFacts& facts, const std::function<void()>& check) {
  try {
    check();
  } catch (const UserError& error) {
    if (facts.rank == 0) throw;
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    throw UserError(error.code(), "");
  }
}

}  // namespace

void run_threads(std::int64_t ranks, const LaunchOptions& options, const RankBody& body) {
  if (ranks == 1) {
    body(nullptr);
    return;
  }
  ThreadJob job(static_cast<std::size_t>(ranks));
  LaunchOptions without_files = options;
  without_files.status_folder.clear();
  const ThreadMonitor monitor(job, monitor_options(without_files));
  job.run([&](World& world) { body(&world); },
          options.bind_to_cores ? ThreadJob::Cores::own_share : ThreadJob::Cores::any);
}

bool Together::is_first() {
  return world() == nullptr || world()->rank().index() == 0;
}

std::int64_t Together::ranks_here(std::int64_t ranks) {
  return world() == nullptr ? ranks : static_cast<std::int64_t>(world()->local_size());
}

std::vector<std::string> Together::gather(const std::string& own) {
  return world() == nullptr ? std::vector{own} : world()->all_gather(own);
}

void Together::first(const std::function<void()>& what) {
  each([&] {
    if (is_first()) what();
  });
}

std::int64_t Together::least(std::int64_t own) {
  if (world() == nullptr) return own;
  std::int64_t negated = -own;
  world()->all_reduce(std::span(&negated, 1), Reduction::max);
  return -negated;
}

OneProcess::OneProcess(double patience_s) : watch_(std::make_unique<IdleWatch>(patience_s)) {}
OneProcess::~OneProcess() = default;

void OneProcess::set_patience(double seconds) {
  watch_->set_patience(seconds);
}

void OneProcess::run_ranks(std::int64_t ranks, const LaunchOptions& options, const RankBody& body) {
  watch_.reset();
  run_threads(ranks, options, body);
}

class ProcessJob::State {
 public:
  State(const LauncherFacts& facts, const LaunchOptions& options) {
    said_once(facts, [&] { check_launch(facts, mpi_library()); });
    const StartWatch start(facts.rank, options.watchdog_s);
    world = MpiWorld::start();
    said_once(facts, [&] { check_world_size(facts, world->size(), world->library()); });
    monitor.emplace(*world, monitor_options(options));
    report = options.report;
  }
  std::unique_ptr<MpiWorld> world;
  std::optional<MpiMonitor> monitor;
  std::function<void(const std::string&)> report;
  bool is_finished = false;
};

ProcessJob::ProcessJob(const LauncherFacts& facts, const LaunchOptions& options)
    : state_(std::make_unique<State>(facts, options)) {}
ProcessJob::~ProcessJob() = default;

World* ProcessJob::world() {
  return state_->world.get();
}

void ProcessJob::run_ranks(std::int64_t ranks, const LaunchOptions& options, const RankBody& body) {
  require(ranks == static_cast<std::int64_t>(state_->world->size()), "each process is a rank");
  state_->monitor->set_options(monitor_options(options));
  // Nobody runs before all know where to leave how they end.
  state_->world->barrier();
  body(state_->world.get());
}

void ProcessJob::each(const std::function<void()>& what) {
  Fault fault{ExitCode::done, {}};
  try {
    what();
  } catch (const std::exception& error) {
    fault = fault_of(error);
  }
  MpiWorld& world = *state_->world;
  // The code stands before the message.
  const auto code = static_cast<char>(fault.code);
  for (const std::string& text : world.all_gather(std::string(1, code) + fault.message)) {
    const auto other = static_cast<ExitCode>(text[0]);
    if (other == ExitCode::done) continue;
    // Said before any rank ends: a launcher ends all when the first one does, with this code.
    if (world.rank().index() == 0) state_->report(text.substr(1));
    finish();
    throw UserError(other, "");
  }
}

void ProcessJob::run(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    if (state_->is_finished) throw;
    const Fault fault = fault_of(error);
    state_->world->abort_all(fault.code, fault.message);
  }
  finish();
}

void ProcessJob::finish() {
  state_->monitor->finish();
  state_->world->finish();
  state_->monitor->part();
  state_->is_finished = true;
}

}  // namespace fourfold::comm
