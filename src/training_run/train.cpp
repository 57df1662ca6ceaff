#include "training_run/train.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "checkpoint/state.h"
#include "comm/launch.h"
#include "comm/stop_request.h"
#include "comm/termination.h"
#include "job/config_source.h"
#include "job/job.h"
#include "job/resume_rules.h"
#include "rundir/outcome.h"
#include "rundir/run_files.h"
#include "rundir/run_lock.h"
#include "rundir/run_record.h"
#include "rundir/sessions.h"
#include "rundir/start.h"
#include "screen/log.h"
#include "screen/print.h"
#include "screen/rows.h"
#include "screen/terminal.h"
#include "screen/warning_fold.h"
#include "training_run/held_lock.h"
#include "training_run/initial_model.h"
#include "training_run/prepare_run.h"
#include "training_run/startup.h"
#include "training_run/train_rank.h"
#include "training_run/warning_of_averages.h"

namespace fourfold::training_run {
namespace {

/// How to go on after a stop; what was meant for this start alone is left out.
std::string stopped_text(const TrainArguments& arguments, const config::Config& config) {
  const std::vector<std::string> words = rundir::words_to_go_on(arguments.command);
  if (!arguments.overwrite && arguments.resume.how == "auto")
    return format("stopped, as asked; the same command goes on from the last checkpoint in {}",
                  config.dir);
  std::string command;
  for (const std::string& word : words) command += " " + rundir::shell_quoted(word);
  return format("stopped, as asked; this goes on from the last checkpoint in {}:{}", config.dir,
                command);
}

/// Shows what is about to happen. Nothing of it is in the run directory yet.
void show_start(const TrainArguments& arguments, const PreparedRun& run, std::size_t ranks_here,
                const rundir::StartRequest& request, const rundir::RunStart& start,
                screen::Log& log) {
  log.set_level(screen::log_level(run.job.settled.config().log_level));
  log.debug(format("configuration and data read in {}, planned and compiled in {}",
                   run.reading_time, format_duration(run.job.compiling_s)));
  if (!run.equality.empty()) log.debug(run.equality);
  log.info(screen::to_text(
      startup_rows(run.job, *run.source, run.facts, run.peak, run.kernels, ranks_here),
      log.columns()));
  if (!run.grid.empty()) log.info("grid: " + run.grid + "\n");
  for (const std::string& note : run.notes) log.warn(note);
  for (const std::string& warning : run.source->warnings()) log.warn(warning);
  for (const std::string& warning : run.kernels.warnings) log.warn(warning);
  if (const auto warning = warning_of_averages(run.job.settled.config())) log.warn(*warning);
  if (start.point) {
    for (const checkpoint::Refused& refused : start.point->refused)
      log.warn(format("a newer checkpoint is damaged and passed over: {}", refused.why));
    log.info(format("going on from step {} of {}: {}\n", start.point->found.manifest.step,
                    run.job.settled.config().train.steps, start.point->found.path));
    const bool is_at_end = start.point->found.manifest.step >= run.job.settled.config().train.steps;
    if (is_at_end && start.weights_fault)
      log.warn(format("the final weights are written again: {}", *start.weights_fault));
  }
  if (!arguments.dry_run) return;
  if (start.point) rundir::check_bytes(request, *start.point, log);
  log.info("dry run: every check has passed, and nothing was written");
}

/// The run directory, held for this job. Lost while it stood still: it ends at once.
std::unique_ptr<rundir::RunLock> lock_run(const TrainArguments& arguments,
                                          const rundir::StartRequest& request) {
  rundir::LockOptions options{.take_over = arguments.take_over,
                              .on_lost = [](const std::string& text) {
                                screen::report_error(text);
                                std::_Exit(static_cast<int>(ExitCode::output_in_use));
                              }};
  return std::make_unique<rundir::RunLock>(request.dir, request.holder, std::move(options));
}

/// True unless the text is missing that the model writes at the end.
bool has_sample(const job::Job& job) {
  return job.settled.config().sample.tokens == 0 ||
         file_exists(join_path(job.settled.dir(), rundir::RunFiles::sample));
}

/// What the run wants of its folder.
rundir::StartRequest request_of(const TrainArguments& arguments, const PreparedRun& run) {
  const job::Job& job = run.job;
  const train::CheckpointSpec& spec = job.settled.config().train.checkpoint;
  const checkpoint::JobState whole(job.programs);
  const auto check_point = [&](const rundir::ResumePoint& point, bool is_own) {
    const std::int64_t step = point.found.manifest.step;
    job::check_start(
        point.found, job, *run.source,
        {.overrides = arguments.resume.overrides,
         .stop_at = arguments.stop_at,
         .is_complete =
             !is_own || (!point.found.manifest.untold &&
                         rundir::has_final_weights(job.settled.dir(), step) && has_sample(job))});
  };
  return {.dir = job.settled.dir(),
          .how = arguments.resume.how,
          .overwrites = arguments.overwrite,
          .is_dry = arguments.dry_run,
          .holder = rundir::this_holder(arguments.variable),
          .weights_bytes = checkpoint::parameter_bytes(whole),
          .checkpoint_bytes = spec.is_on() ? checkpoint::whole_bytes(whole) : 0,
          .checkpoints_kept = spec.keep_last,
          .check_point = check_point,
          .check_older =
              [&](const checkpoint::Manifest& manifest) {
                job::check_resumable(manifest, job.settled.config(), *run.source,
                                     arguments.resume.overrides);
              },
          .check_beginning = [&] { check_initial_model(job, *run.source); }};
}

/// Looks into the run directory, which is held from then on unless the run is a dry one. For rank
/// 0.
rundir::RunStart look_at_start(const TrainArguments& arguments, const rundir::StartRequest& request,
                               HeldLock& lock) {
  if (arguments.dry_run)
    rundir::require_unlocked(request.dir, request.holder, arguments.take_over);
  else
    lock.hold(lock_run(arguments, request));
  return rundir::plan_start(request);
}

/// A signal that another watch has taken; false where it ends the process.
bool is_no_second_signal() {
  return comm::StopRequest::take() != comm::StopRequest::Meaning::again;
}

/// Tells the script that started the job how it ended, and where.
std::function<void(ExitCode, const std::string&)> told_to_script(const TrainArguments& arguments) {
  return [outcome = rundir::Outcome(arguments.variable)](ExitCode code, const std::string& host) {
    if (code != ExitCode::stopped) outcome.failed(code, host);
  };
}

/// What the watch over ranks goes by before they have agreed on anything. What is wrong with the
/// configuration is said later, by one of them.
comm::LaunchOptions first_options(const TrainArguments& arguments, HeldLock& lock) {
  comm::LaunchOptions options;
  options.ask_to_stop = is_no_second_signal;
  options.ended = told_to_script(arguments);
  options.flush = [&lock] { lock.give_back(); };
  options.report = screen::report_error;
  try {
    options.watchdog_s = watchdog_s(job::load_config(arguments.config));
  } catch (const UserError&) {
    options.watchdog_s = watchdog_s({});
  }
  return options;
}

/// What the watch goes by from the first step on. A process that ends at once leaves no lock.
comm::LaunchOptions launch_options(const TrainArguments& arguments, const job::Job& job,
                                   screen::Log& log, HeldLock& lock) {
  return {.watchdog_s = watchdog_s(job.settled.config()),
          .status_folder = join_path(job.settled.dir(), rundir::RunFiles::status),
          .bind_to_cores = job.settled.config().bind_to_cores && job.device == job::Device::cpu,
          .flush =
              [&] {
                log.status("");
                lock.give_back();
              },
          .ask_to_stop = is_no_second_signal,
          .ended = told_to_script(arguments),
          .report = screen::report_error};
}

screen::Log make_log(const TrainArguments& arguments) {
  // mpirun gives its ranks a terminal of their own, wherever their output ends up.
  const int output = arguments.launcher.launched_by_mpi() ? screen::Terminal::none : STDOUT_FILENO;
  return {Level::info,
          screen::terminal_of(output, screen::color_choice(arguments.color), arguments.variable)};
}

/// The end of a process that was asked to stop and has nothing to save.
[[noreturn]] void end_at_start(bool speaks) {
  if (speaks) comm::say_on_stderr(stopped_at_start);
  std::_Exit(static_cast<int>(ExitCode::stopped));
}

/// The one that a rank belongs to.
const Mesh& mesh_of(const job::Job& job, std::size_t rank) {
  return *std::ranges::find_if(job.plan.meshes, [&](const Mesh& mesh) {
    return mesh.ranks.position(Rank(rank)).has_value();
  });
}

/// Warnings of all processes; equal ones are folded.
void tell_warnings(const PreparedRun& run, screen::Log& log) {
  for (std::size_t rank = 0; rank < run.warnings.size(); ++rank)
    if (!run.warnings[rank].empty())
      log.warn_from(screen::rank_tag(rank, run.facts.hosts[rank],
                                     screen::grid_place(mesh_of(run.job, rank), rank)),
                    run.warnings[rank]);
}

/// The road of every run, from its configuration to the end of its ranks: those of this process, or
/// the one that this process is. Whether it was stopped: then how it goes on, else empty.
std::string train_together(const TrainArguments& arguments, comm::StopRequest& stop,
                           screen::Log& log, HeldLock& lock, comm::Together& together) {
  const PreparedRun run = prepare_run(arguments, together, log);
  const auto ranks_here = static_cast<std::size_t>(together.ranks_here(run.job.ranks()));
  // The first process alone looks for a checkpoint; others are told.
  const rundir::StartRequest request = request_of(arguments, run);
  rundir::RunStart start;
  together.first([&] { start = look_at_start(arguments, request, lock); });
  start.point = rundir::share(start.point, together.world());
  together.first([&] {
    show_start(arguments, run, ranks_here, request, start, log);
    tell_warnings(run, log);
  });
  if (arguments.dry_run) return {};
  const std::unique_ptr<measure::CudaForThreads> gpu =
      together.world() == nullptr ? job::open_for_threads(run.job) : nullptr;
  const TrainingRun shared{arguments,
                           run.job,
                           *run.source,
                           run.facts,
                           run.peak,
                           request,
                           start,
                           stop,
                           shared_cores(run.facts, ranks_here),
                           run.ranking,
                           log,
                           gpu.get(),
                           run.predicted ? &*run.predicted : nullptr};
  std::atomic<bool> was_stopped{false};
  together.run_ranks(
      run.job.ranks(), launch_options(arguments, run.job, log, lock), [&](comm::World* world) {
        const auto rank =
            world == nullptr ? std::int64_t{0} : static_cast<std::int64_t>(world->rank().index());
        if (train_rank(shared, job::bundle_of(run.job, rank), world)) was_stopped = true;
      });
  return was_stopped ? stopped_text(arguments, run.job.settled.config()) : std::string();
}

void train_threads(const TrainArguments& arguments) {
  HeldLock lock;
  // A line of its own, wherever the moving line or the terminal's ^C has left the cursor.
  comm::StopRequest stop(
      {.answer = "\nasked to stop: the run saves and ends after the step that is under way; ask "
                 "again to end it at once\n",
       .end_unsaved =
           [&] {
             lock.give_back();
             end_at_start(true);
           },
       .heard = [&arguments] { rundir::Outcome(arguments.variable).heard(); }});
  screen::Log log = make_log(arguments);
  comm::OneProcess process(watchdog_s({}));
  const std::string text = train_together(arguments, stop, log, lock, process);
  stop.leave();
  if (!text.empty()) throw UserError(ExitCode::stopped, text);
}

void train_processes(const TrainArguments& arguments) {
  const bool speaks = arguments.launcher.rank == 0;
  HeldLock lock;
  comm::StopRequest stop({.answer = "",
                          .end_unsaved = [speaks] { end_at_start(speaks); },
                          .heard =
                              [&arguments, speaks] {
                                if (speaks) rundir::Outcome(arguments.variable).heard();
                              }});
  screen::Log log = make_log(arguments);
  comm::ProcessJob processes(arguments.launcher, first_options(arguments, lock));
  // However this ends, nobody asks ranks to stop that are no longer watched.
  const std::unique_ptr<comm::StopRequest, void (*)(comm::StopRequest*)> leaving(
      &stop, [](comm::StopRequest* request) { request->leave(); });
  stop.set_end_unsaved(
      [&] { processes.world()->abort_all(ExitCode::stopped, std::string(stopped_at_start)); });
  bool was_stopped = false;
  processes.run([&] {
    const std::string text = train_together(arguments, stop, log, lock, processes);
    was_stopped = !text.empty();
    // Said before any rank ends: a launcher ends all when the first one does, with this code.
    if (was_stopped && speaks) log.info(text);
    stop.leave();
  });
  // The others end with 0: a launcher would end those that leave after one with another code.
  if (was_stopped && speaks) throw UserError(ExitCode::stopped, "");
}

}  // namespace

void train(const TrainArguments& arguments) {
  const bool is_one_of_many = arguments.launcher.launched_by_mpi();
  const bool speaks = !is_one_of_many || arguments.launcher.rank == 0;
  const rundir::Outcome outcome(arguments.variable);
  if (speaks) outcome.start();
  try {
    is_one_of_many ? train_processes(arguments) : train_threads(arguments);
  } catch (const std::exception& error) {
    const ExitCode code = comm::fault_of(error).code;
    const bool is_lost = code == ExitCode::no_progress || code == ExitCode::peer_lost;
    if (speaks) told_to_script(arguments)(code, is_lost ? comm::own_placement().host : "");
    throw;
  }
  if (speaks && arguments.dry_run) outcome.done(0, 0);
}

}  // namespace fourfold::training_run
