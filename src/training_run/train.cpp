#include "training_run/train.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "checkpoint/state.h"
#include "comm/launch.h"
#include "comm/mpi.h"
#include "comm/start_watch.h"
#include "comm/stop_request.h"
#include "comm/termination.h"
#include "config/rules.h"
#include "job/config_source.h"
#include "job/find_kernels.h"
#include "job/handshake.h"
#include "job/job.h"
#include "job/open_grid.h"
#include "job/peak.h"
#include "job/peak_cache.h"
#include "job/prove_meetings.h"
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
#include "train/tracing.h"
#include "training_run/held_lock.h"
#include "training_run/initial_model.h"
#include "training_run/predicted_run.h"
#include "training_run/settle_prompt.h"
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

/// What is known before any rank starts.
struct Prepared {
  std::unique_ptr<const data::Source> source;
  job::Job job;
  std::string reading_time, compiling_time;
  std::vector<std::string> notes;  // what people should know of the configuration
  std::string grid, grids;         // where the planner chose it: which and why, and among which
  job::FoundKernels kernels;       // what the job has them from
};

/// How many ranks, one after another, share a host; nothing where hosts differ in that.
std::optional<std::int64_t> ranks_per_host(const std::vector<std::string>& hosts) {
  const auto other =
      std::ranges::find_if(hosts, [&](const auto& host) { return host != hosts[0]; });
  const auto number = static_cast<std::size_t>(other - hosts.begin());
  std::set<std::string> seen;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (rank % number == 0 && !seen.insert(hosts[rank]).second) return std::nullopt;
    if (hosts[rank] != hosts[rank / number * number]) return std::nullopt;
  }
  if (hosts.size() % number != 0) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

/// Configuration and data, before the job is made of them.
struct Given {
  config::Config config;
  std::unique_ptr<const data::Source> source;
  std::string reading_time;
  std::vector<std::string> notes;  // what people should know of the configuration
};

/// What is known of the ranks of a launcher; what is not, or the configuration says, is as there.
struct LaunchedRanks {
  std::optional<int> threads = std::nullopt;  // of each
  std::optional<std::int64_t> per_host = std::nullopt;
};

Given read_given(const TrainArguments& arguments, const LaunchedRanks& ranks) {
  const Stopwatch reading;
  Given given{job::load_config(arguments.config), nullptr, {}, {}};
  if (ranks.threads && given.config.threads == 0) given.config.threads = *ranks.threads;
  plan::PipelineSpec& pipeline = given.config.plan.pipeline;
  if (pipeline.stages > 1 && !pipeline.reshard.ranks_per_host)
    pipeline.reshard.ranks_per_host = ranks.per_host;
  given.source = job::load_data(given.config);
  given.notes = settle_prompt(given.config, *given.source);
  given.reading_time = format_duration(reading.seconds());
  return given;
}

/// The grid that the configuration leaves to the planner: that of the run which goes on, if it had
/// as many ranks, else the fastest.
job::ChosenGrid find_grid(const TrainArguments& arguments, const config::Config& config,
                          const job::RanksThere& there) {
  const std::string earlier = join_path(config.dir, rundir::RunFiles::config);
  const bool may_go_on = !arguments.overwrite && arguments.resume.how == "auto";
  if (may_go_on && file_exists(earlier))
    if (auto kept = job::kept_grid(config, config::load(std::span(&earlier, 1), {}), there.ranks))
      return *kept;
  return job::choose_grid(config, there.ranks, job::machine_of(config, there));
}

/// Plans and compiles.
Prepared prepare(const TrainArguments& arguments, Given given, std::optional<std::int64_t> ranks) {
  const Stopwatch compiling;
  config::refuse_signals(given.config);
  job::Job job = job::make_job(std::move(given.config), job::Graphs::of_run, ranks);
  job::require_device(job);
  train::check_trace(job.config.train.steps, arguments.trace);
  return {std::move(given.source),
          std::move(job),
          std::move(given.reading_time),
          format_duration(compiling.seconds()),
          std::move(given.notes),
          {},
          {},
          {}};
}

/// Finds the fastest kernels where the run wants that, and says so before it measures.
job::FoundKernels find_kernels(const TrainArguments& arguments, const job::Job& job,
                               screen::Log& log) {
  const bool may_go_on = !arguments.overwrite && arguments.resume.how != "never";
  const job::KernelSources sources{
      .kept = may_go_on ? join_path(job.config.dir, rundir::RunFiles::kernel_table) : "",
      .cache_folder = job::cache_folder(arguments.variable)};
  log.status("finding the fastest kernels for this run; once a machine and shape, at most 10 s");
  job::FoundKernels found = job::find_kernels(job, sources);
  log.status("");
  return found;
}

void settle_kernels(const TrainArguments& arguments, Prepared& run, screen::Log& log) {
  if (arguments.dry_run || !job::wants_kernels(run.job)) return;
  run.kernels = find_kernels(arguments, run.job, log);
  if (!run.kernels.table.empty()) job::use_kernels(run.job, run.kernels.table);
}

/// The same for ranks that are processes: the first one finds a table for all of them. Where CPUs,
/// threads or GPUs differ, what is fastest on one is not on another, and all take the built-in
/// table.
void settle_kernels(const TrainArguments& arguments, Prepared& run, screen::Log& log,
                    comm::ProcessJob& processes) {
  if (arguments.dry_run || !job::wants_kernels(run.job)) return;
  comm::World& world = processes.world();
  const std::vector<std::string> machines = world.all_gather(job::place_of_kernels(run.job));
  if (std::ranges::any_of(machines, [&](const auto& one) { return one != machines.front(); })) {
    if (is_first(&world))
      run.kernels.warnings = {
          "ranks compute on different CPUs or GPUs, or with different numbers of threads: "
          "run.kernel_table: auto is the built-in table for them"};
    return;
  }
  processes.together([&] {
    if (is_first(&world)) run.kernels = find_kernels(arguments, run.job, log);
  });
  const std::string table = world.all_gather(run.kernels.table).front();
  if (!table.empty()) processes.together([&] { job::use_kernels(run.job, table); });
}

/// Compiles the job again where it needs more memory than a rank of this host has, and the limit is
/// left open. `world`: all ranks call together, and the one that has least decides for all.
void fit_memory(job::Job& job, std::size_t ranks_here, comm::World* world) {
  if (job.config.plan.memory_limit) return;
  const std::int64_t needed = job.bundle().persistent_bytes + job.bundle().transient_bytes;
  std::int64_t share = job::memory_share(job, static_cast<std::int64_t>(ranks_here),
                                         job::checkpoint_copy_bytes(job));
  if (world != nullptr) {
    std::int64_t negated = -share;
    world->all_reduce(std::span(&negated, 1), Reduction::max);
    share = -negated;
  }
  if (needed > share) job::compile_within(job, share);
}

/// Shows what is about to happen. Nothing of it is in the run directory yet.
void show_start(const TrainArguments& arguments, const Prepared& run, const rundir::JobFacts& facts,
                const std::optional<job::MeasuredPeak>& peak, std::size_t ranks_here,
                const rundir::StartRequest& request, const rundir::RunStart& start,
                screen::Log& log) {
  log.set_level(screen::log_level(run.job.config.log_level));
  log.debug(format("configuration and data read in {}, planned and compiled in {}",
                   run.reading_time, run.compiling_time));
  log.info(screen::to_text(startup_rows(run.job, *run.source, facts, peak, run.kernels, ranks_here),
                           log.columns()));
  if (!run.grid.empty()) log.info("grid: " + run.grid + "\n");
  for (const std::string& note : run.notes) log.warn(note);
  for (const std::string& warning : run.source->warnings()) log.warn(warning);
  for (const std::string& warning : run.kernels.warnings) log.warn(warning);
  if (const auto warning = warning_of_averages(run.job.config)) log.warn(*warning);
  if (start.point) {
    for (const checkpoint::Refused& refused : start.point->refused)
      log.warn(format("a newer checkpoint is damaged and passed over: {}", refused.why));
    log.info(format("going on from step {} of {}: {}\n", start.point->found.manifest.step,
                    run.job.config.train.steps, start.point->found.path));
    const bool is_at_end = start.point->found.manifest.step >= run.job.config.train.steps;
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
  return job.config.sample.tokens == 0 ||
         file_exists(join_path(job.config.dir, rundir::RunFiles::sample));
}

/// What the run wants of its folder.
rundir::StartRequest request_of(const TrainArguments& arguments, const Prepared& run) {
  const job::Job& job = run.job;
  const train::CheckpointSpec& spec = job.config.train.checkpoint;
  const checkpoint::JobState whole(job.programs);
  const auto check_point = [&](const rundir::ResumePoint& point, bool is_own) {
    const std::int64_t step = point.found.manifest.step;
    job::check_start(point.found, job, *run.source,
                     {.overrides = arguments.resume.overrides,
                      .stop_at = arguments.stop_at,
                      .is_complete = !is_own || (!point.found.manifest.untold &&
                                                 rundir::has_final_weights(job.config.dir, step) &&
                                                 has_sample(job))});
  };
  return {.dir = job.config.dir,
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
                job::check_resumable(manifest, job.config, *run.source, arguments.resume.overrides);
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

double watchdog_s(const config::Config& config) {
  // Progress is counted in instructions, of which the longest takes seconds on a slow machine.
  constexpr double automatic_s = 120;
  return config.watchdog_s > 0 ? config.watchdog_s : automatic_s;
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

comm::LaunchOptions launch_options(const TrainArguments& arguments, const job::Job& job,
                                   screen::Log& log) {
  return {.watchdog_s = watchdog_s(job.config),
          .status_folder = join_path(job.config.dir, rundir::RunFiles::status),
          .bind_to_cores = job.config.bind_to_cores && job.device == job::Device::cpu,
          .flush = [&log] { log.status(""); },
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
  std::optional<comm::IdleWatch> watch(std::in_place, watchdog_s({}));
  Given given = read_given(arguments, {});
  watch->set_patience(watchdog_s(given.config));
  std::optional<job::ChosenGrid> chosen;
  if (given.config.open_axes.any()) {
    const job::RanksThere there = job::ranks_of_this_host(given.config);
    chosen = find_grid(arguments, given.config, there);
    job::settle_grid(given.config, *chosen);
  }
  Prepared run = prepare(arguments, std::move(given), std::nullopt);
  if (chosen) {
    run.grid = chosen->text;
    run.grids = chosen->ranking;
  }
  const job::Job& job = run.job;
  settle_kernels(arguments, run, log);
  fit_memory(run.job, static_cast<std::size_t>(job.ranks()), nullptr);
  job::check_memory(job, job.ranks(), job::checkpoint_copy_bytes(job));
  job::prove_meetings(job);
  rundir::JobFacts facts;
  facts.ranks = static_cast<std::size_t>(job.ranks());
  facts.threads_per_rank = job.target.threads;
  std::optional<job::MeasuredPeak> peak;
  if (!arguments.dry_run) peak = job::find_peak(job, arguments.variable);
  if (peak) facts.measured_peak = job::to_json(*peak);
  const std::optional<PredictedStep> predicted = predict_step(job, log);
  const rundir::StartRequest request = request_of(arguments, run);
  const rundir::RunStart start = look_at_start(arguments, request, lock);
  show_start(arguments, run, facts, peak, facts.ranks, request, start, log);
  if (arguments.dry_run) return;
  const std::unique_ptr<job::CudaForThreads> gpu = job::open_for_threads(job);
  const TrainingRun shared{arguments,
                           job,
                           *run.source,
                           facts,
                           peak,
                           request,
                           start,
                           stop,
                           shared_cores(facts, facts.ranks),
                           run.grids,
                           log,
                           gpu.get(),
                           predicted ? &*predicted : nullptr};
  std::atomic<bool> was_stopped{false};
  watch.reset();
  comm::run_threads(job.ranks(), launch_options(arguments, job, log), [&](comm::World* world) {
    const auto rank =
        world == nullptr ? std::int64_t{0} : static_cast<std::int64_t>(world->rank().index());
    if (train_rank(shared, job::bundle_of(job, rank), world)) was_stopped = true;
  });
  if (was_stopped) throw UserError(ExitCode::stopped, stopped_text(arguments, job.config));
}

/// The one that a rank belongs to.
const Mesh& mesh_of(const job::Job& job, std::size_t rank) {
  return *std::ranges::find_if(job.plan.meshes, [&](const Mesh& mesh) {
    return mesh.ranks.position(Rank(rank)).has_value();
  });
}

/// Warnings of all ranks, on the first; equal ones are folded.
void tell_warnings(const job::Job& job, comm::World& world, const rundir::JobFacts& facts,
                   const std::string& own, screen::Log& log) {
  const std::vector<std::string> texts = world.all_gather(own);
  if (!is_first(&world)) return;
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty())
      log.warn_from(
          screen::rank_tag(rank, facts.hosts[rank], screen::grid_place(mesh_of(job, rank), rank)),
          texts[rank]);
}

/// Where the grid is the planner's: the first rank chooses, and all take it. Texts are the first
/// rank's.
job::ChosenGrid share_grid(const TrainArguments& arguments, Given& given,
                           comm::ProcessJob& processes) {
  if (!given.config.open_axes.any()) return {};
  comm::World& world = processes.world();
  job::ChosenGrid chosen;
  processes.together([&] {
    if (is_first(&world))
      chosen = find_grid(arguments, given.config,
                         {.ranks = static_cast<std::int64_t>(world.size()),
                          .of_host = static_cast<std::int64_t>(world.local_size())});
  });
  const std::string own = is_first(&world) ? job::to_text(chosen) : "";
  job::settle_grid(given.config, job::grid_of_text(world.all_gather(own).front()));
  return chosen;
}

/// What one rank does from its first word to the others to its last; whether it was stopped. The
/// log and the lock of the run directory outlive the watch over the ranks, which ends them too.
bool train_process(const TrainArguments& arguments, comm::StopRequest& stop, screen::Log& log,
                   HeldLock& lock, comm::ProcessJob& processes) {
  comm::World& world = processes.world();
  const comm::ThreadAdvice advice = comm::advise_threads(world);
  const std::vector<std::string> hosts = world.all_gather(comm::own_placement().host);
  const auto ranks = static_cast<std::int64_t>(world.size());
  std::optional<Given> given;
  processes.together(
      [&] { given = read_given(arguments, {advice.threads, ranks_per_host(hosts)}); });
  const job::ChosenGrid chosen = share_grid(arguments, *given, processes);
  std::optional<Prepared> run;
  processes.together([&] {
    run = prepare(arguments, std::move(*given), ranks);
    job::take_gpu(run->job, world);
  });
  job::settle_gpus(run->job, world);
  run->grid = chosen.text;
  run->grids = chosen.ranking;
  settle_kernels(arguments, *run, log, processes);
  fit_memory(run->job, world.local_size(), &world);
  processes.together([&] {
    job::check_memory(run->job, static_cast<std::int64_t>(world.local_size()),
                      job::checkpoint_copy_bytes(run->job));
    if (is_first(&world)) job::prove_meetings(run->job);
  });
  rundir::JobFacts facts{.ranks = world.size(),
                         .are_processes = true,
                         .threads_per_rank = run->job.target.threads,
                         .hosts = hosts,
                         .mpi = comm::mpi_library(),
                         .measured_peak = {}};
  std::vector<job::CommonFact> common;
  processes.together(
      [&] { common = job::common_facts(run->job, *run->source, arguments.variable); });
  processes.together([&] { job::require_common(common, facts.hosts, world); });
  std::optional<job::MeasuredPeak> peak;
  if (!arguments.dry_run) peak = job::find_peak(run->job, world, arguments.variable);
  if (peak) facts.measured_peak = job::to_json(*peak);
  std::optional<PredictedStep> predicted;
  processes.together([&] {
    if (is_first(&world)) predicted = predict_step(run->job, log);
  });
  // Rank 0 alone looks for a checkpoint; others are told.
  const rundir::StartRequest request = request_of(arguments, *run);
  rundir::RunStart start;
  processes.together([&] {
    if (is_first(&world)) start = look_at_start(arguments, request, lock);
  });
  start.point = rundir::share(start.point, world);
  processes.together([&] {
    if (is_first(&world))
      show_start(arguments, *run, facts, peak, world.local_size(), request, start, log);
  });
  tell_warnings(run->job, world, facts, advice.warning, log);
  if (arguments.dry_run) return false;
  const TrainingRun shared{arguments,
                           run->job,
                           *run->source,
                           facts,
                           peak,
                           request,
                           start,
                           stop,
                           shared_cores(facts, world.local_size()),
                           run->grids,
                           log,
                           nullptr,
                           predicted ? &*predicted : nullptr};
  comm::LaunchOptions options = launch_options(arguments, run->job, log);
  // A process that ends at once must not leave its lock.
  options.flush = [&] {
    log.status("");
    lock.give_back();
  };
  processes.set_options(options);
  // Nobody trains before all know where to leave how they end.
  world.barrier();
  const auto rank = static_cast<std::int64_t>(world.rank().index());
  const bool was_stopped = train_rank(shared, job::bundle_of(run->job, rank), &world);
  // Said before any rank ends: a launcher ends all when the first one does, with this code.
  if (was_stopped && is_first(&world)) log.info(stopped_text(arguments, run->job.config));
  return was_stopped;
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
      [&] { processes.world().abort_all(ExitCode::stopped, std::string(stopped_at_start)); });
  bool was_stopped = false;
  processes.run([&] {
    was_stopped = train_process(arguments, stop, log, lock, processes);
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
