#include "cli/launch.h"

#include <exception>
#include <optional>

#include "base/error.h"
#include "comm/monitor.h"
#include "comm/mpi.h"
#include "comm/start_watch.h"
#include "comm/threads.h"
#include "screen/report_error.h"

namespace fourfold::cli {
namespace {

comm::MonitorOptions monitor_options(const LaunchOptions& options) {
  comm::MonitorOptions result;
  result.watchdog_s = options.watchdog_s;
  result.status_folder = options.status_folder;
  result.before_exit = options.flush;
  result.ask_to_stop = options.ask_to_stop;
  return result;
}

}  // namespace

void run_threads(std::int64_t ranks, const LaunchOptions& options, const RankBody& body) {
  if (ranks == 1) {
    body(nullptr);
    return;
  }
  comm::ThreadJob job(static_cast<std::size_t>(ranks));
  LaunchOptions without_files = options;
  without_files.status_folder.clear();
  const comm::ThreadMonitor monitor(job, monitor_options(without_files));
  job.run([&](comm::World& world) { body(&world); });
}

class ProcessJob::State {
 public:
  State(const comm::LauncherFacts& facts, const LaunchOptions& options) {
    comm::check_launch(facts);
    const comm::StartWatch start(facts.rank, options.watchdog_s);
    world = comm::MpiWorld::start();
    comm::check_world_size(facts, world->size(), world->library());
    monitor.emplace(*world, monitor_options(options));
  }
  std::unique_ptr<comm::MpiWorld> world;
  std::optional<comm::MpiMonitor> monitor;
  bool is_finished = false;
};

ProcessJob::ProcessJob(const comm::LauncherFacts& facts, const LaunchOptions& options)
    : state_(std::make_unique<State>(facts, options)) {}
ProcessJob::~ProcessJob() = default;

comm::World& ProcessJob::world() {
  return *state_->world;
}

void ProcessJob::set_options(const LaunchOptions& options) {
  state_->monitor->set_options(monitor_options(options));
}

void ProcessJob::together(const std::function<void()>& what) {
  comm::Fault fault{ExitCode::done, {}};
  try {
    what();
  } catch (const std::exception& error) {
    fault = comm::fault_of(error);
  }
  comm::MpiWorld& world = *state_->world;
  // The code stands before the message.
  const auto code = static_cast<char>(fault.code);
  for (const std::string& text : world.all_gather(std::string(1, code) + fault.message)) {
    const auto other = static_cast<ExitCode>(text[0]);
    if (other == ExitCode::done) continue;
    // Said before any rank ends: a launcher ends all when the first one does, with this code.
    if (world.rank().index() == 0) screen::report_error(text.substr(1));
    finish();
    throw UserError(other, "");
  }
}

void ProcessJob::run(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    if (state_->is_finished) throw;
    const comm::Fault fault = comm::fault_of(error);
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

}  // namespace fourfold::cli
