#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/styled_text.h"
#include "base/units.h"
#include "checkpoint/model_file.h"
#include "checkpoint/state.h"
#include "cli/commands.h"
#include "cli/config_source.h"
#include "cli/end_summary.h"
#include "cli/initial_model.h"
#include "cli/startup.h"
#include "cli/tensorboard_log.h"
#include "comm/launch.h"
#include "comm/mpi.h"
#include "comm/stop_request.h"
#include "comm/termination.h"
#include "config/print.h"
#include "generate/generate.h"
#include "job/build_info.h"
#include "job/handshake.h"
#include "job/job.h"
#include "job/peak.h"
#include "job/resume_rules.h"
#include "job/summary.h"
#include "model/model.h"
#include "plan/plan.h"
#include "run/executor.h"
#include "rundir/open.h"
#include "rundir/outcome.h"
#include "rundir/run_files.h"
#include "rundir/run_lock.h"
#include "rundir/run_record.h"
#include "rundir/sessions.h"
#include "rundir/start.h"
#include "screen/log.h"
#include "screen/print.h"
#include "screen/report_error.h"
#include "screen/rows.h"
#include "screen/terminal.h"
#include "screen/warning_fold.h"
#include "train/checkpoints.h"
#include "train/console.h"
#include "train/metrics.h"
#include "train/session.h"
#include "train/tracing.h"

namespace fourfold::cli {
namespace {

train::RunFacts facts_of(const job::Job& job, const CountUnit& unit,
                         const std::optional<job::MeasuredPeak>& peak) {
  const plan::Batching& b = job.plan.batching;
  train::RunFacts facts;
  facts.unit = unit;
  facts.items_per_step = b.global_batch * b.length;
  facts.model_flops_per_step =
      model::model_flops_per_step(job.config.model(), b.global_batch, b.length);
  facts.memory_bytes = job.bundle().persistent_bytes + job.bundle().transient_bytes +
                       job::checkpoint_copy_bytes(job);
  if (peak) facts.peak_flops = peak->flops_per_s;
  facts.peak_is_measured = peak.has_value();
  return facts;
}

/// Whether this rank speaks for the job.
bool is_first(const comm::World* world) {
  return world == nullptr || world->rank().index() == 0;
}

/// Of the state after so many steps.
void save_weights(const job::Job& job, std::int64_t steps, run::Executor& executor,
                  comm::World* world) {
  checkpoint::save_model(join_path(job.config.dir, rundir::RunFiles::weights),
                         executor.bundle().at("train"),
                         [&](const program::Buffer& b) { return executor.read(b); }, world,
                         {{"step", format("{}", steps)}});
}

/// Since it was made.
class Stopwatch {
 public:
  std::string text() const {
    return format_duration(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count());
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Those who watch a run, on the first rank.
struct Observers {
  Observers(const job::Job& job, const train::RunFacts& facts, const std::string& shared_cores,
            screen::Log& log, std::span<train::Observer* const> more,
            train::MetricsFile::Existing existing)
      : console(log, job.config.train, facts),
        metrics(join_path(job.config.dir, rundir::RunFiles::metrics), existing,
                [&log](const std::string& text) { log.warn(text); }),
        summary(facts, shared_cores),
        all{&console, &metrics, &summary} {
    all.insert(all.end(), more.begin(), more.end());
  }

  train::Console console;
  train::MetricsFile metrics;
  EndSummary summary;
  std::vector<train::Observer*> all;
};

/// All ranks compute the sample together, the first one prints it and returns it.
std::string show_sample(const job::Job& job, const data::Source& source, run::Executor& executor,
                        const comm::World* world) {
  const generate::SampleSpec& spec = job.config.sample;
  if (spec.tokens == 0) return {};
  if (!is_first(world)) return generate::generate(spec, *source.tokenizer(), executor).text;
  screen::print("\nsample (%lld tokens, temperature %g):\n%s", static_cast<long long>(spec.tokens),
                spec.temperature, spec.prompt.c_str());
  const auto show = [](std::string_view piece) {
    screen::print_text(piece);
    std::fflush(stdout);
  };
  const std::string text = generate::generate(spec, *source.tokenizer(), executor, show).text;
  screen::print("\n");
  write_file_atomic(join_path(job.config.dir, rundir::RunFiles::sample), spec.prompt + text + "\n");
  return spec.prompt + text;
}

/// The texts that the model writes between steps, prompt and all.
void add_samples(train::Course& course, const job::Job& job, const data::Source& source,
                 run::Executor& executor) {
  course.sample_interval = job.config.sample.interval;
  course.write_sample = [&] {
    const generate::SampleSpec& spec = job.config.sample;
    return spec.prompt + generate::generate(spec, *source.tokenizer(), executor).text;
  };
}

/// Where everything lies, and what can be done with it. `ended_early`: the run has ended before its
/// last step, and not because it was told to.
void say_where(const job::Job& job, std::int64_t steps, bool ended_early, screen::Log& log) {
  const std::string& dir = job.config.dir;
  Rows rows = {{"weights", join_path(dir, rundir::RunFiles::weights)},
               {"metrics", join_path(dir, rundir::RunFiles::metrics)},
               {"log", join_path(dir, rundir::RunFiles::log)},
               {"again", format("sh {} --set run.dir=DIR",
                                rundir::shell_quoted(join_path(dir, rundir::RunFiles::command)))}};
  if (job.config.sample.tokens > 0)
    rows.push_back(
        {"write more", format("fourfold generate {} --prompt \"...\"", rundir::shell_quoted(dir))});
  if (steps < job.config.train.steps && !ended_early)
    rows.push_back({"go on", format("the same command with another --stop-at, or without, for the "
                                    "other {} of {}",
                                    format_grouped(job.config.train.steps - steps),
                                    counted(job.config.train.steps, "step"))});
  std::string text = "\n" + screen::to_text(rows, log.columns());
  text.pop_back();
  log.info(text);
}

/// What the ranks of a run share.
struct Shared {
  const TrainArguments& arguments;
  const job::Job& job;
  const data::Source& source;
  const rundir::JobFacts& facts;
  const std::optional<job::MeasuredPeak>& peak;
  const rundir::StartRequest& request;
  const rundir::RunStart& start;
  const std::atomic<bool>& stop_asked;
  std::string shared_cores;  // as shared_cores() says it
  screen::Log& log;
};

/// "x 2, data 4"; "one rank".
std::string grid_words(const Mesh& mesh) {
  std::string words;
  for (auto axis = mesh.axes.rbegin(); axis != mesh.axes.rend(); ++axis)
    if (axis->size > 1)
      words += format("{}{} {}", words.empty() ? "" : ", ", axis->name, axis->size);
  return words.empty() ? "one rank" : words;
}

/// What every checkpoint of the run says.
checkpoint::Manifest checkpoint_facts(const Shared& run) {
  checkpoint::Manifest facts;
  facts.seed = run.job.config.seed;
  const job::BuildInfo build = job::build_info();
  facts.version = format("Fourfold {} ({})", build.version, build.commit);
  facts.config = config::resolved_yaml(run.job.config);
  facts.data = run.source.fingerprint();
  if (const data::Tokenizer* tokenizer = run.source.tokenizer())
    facts.tokenizer = tokenizer->to_text();
  facts.grid = grid_words(run.job.plan.meshes[0]);
  return facts;
}

/// What the first rank does beside the training: it tells.
train::TrainResult train_and_tell(const Shared& run, const train::RunFacts& facts,
                                  run::Executor& executor, comm::World* world,
                                  std::span<train::Observer* const> more,
                                  const train::Course& course) {
  using Existing = train::MetricsFile::Existing;
  Observers observers(run.job, facts, run.shared_cores, run.log, more,
                      run.start.is_own ? Existing::keep : Existing::replace);
  const train::TrainResult result =
      train::train(run.job.config.train, facts, executor, run.source, observers.all, world, course);
  if (run.peak && observers.summary.exceeds_peak())
    job::doubt_peak(*run.peak, run.arguments.variable);
  if (result.ended_early)
    run.log.info(
        format("\nthe validation loss has not fallen in {} "
               "(eval.early_stopping): the run ends after step {}; it was lowest, {:.4f}, "
               "after step {}",
               counted(run.job.config.train.early_stopping, "evaluation"), result.steps,
               result.best_val_loss, result.best_step));
  run.log.info("\n" + observers.summary.text(run.log.columns(), run.log.is_unicode()));
  return result;
}

void start_tensorboard(std::optional<TensorboardLog>& tensorboard, const job::Job& job,
                       std::int64_t first_step, screen::Log& log) {
  tensorboard.emplace(real_files(), join_path(job.config.dir, rundir::RunFiles::tensorboard),
                      first_step, log);
  tensorboard->text("run/config", as_block(config::resolved_yaml(job.config)));
  tensorboard->text("run/plan", as_block(without_styles(screen::to_text(job::summary_rows(job)))));
}

/// The test whether a run may go on from an older checkpoint.
std::function<void(const checkpoint::Manifest&)> resumable(const TrainArguments& arguments,
                                                           const job::Job& job,
                                                           const data::Source& source) {
  return [&](const checkpoint::Manifest& manifest) {
    job::check_resumable(manifest, job.config, source, arguments.resume.overrides);
  };
}

/// The state that the run goes on from, on all ranks; nothing where it begins.
std::optional<checkpoint::Found> bring_back(const Shared& run, checkpoint::Store& store,
                                            run::Executor& executor, comm::World* world) {
  std::optional<checkpoint::Found> origin;
  if (run.start.point)
    origin = rundir::restore(
        *run.start.point, store,
        {.check = resumable(run.arguments, run.job, run.source),
         .warn = [&](const std::string& text) { run.log.warn(text); }},
        executor.bundle().at("train"), [&](const program::Buffer& b) { return executor.bytes(b); },
        world);
  // Nothing is written before all ranks are there.
  if (world != nullptr) world->barrier();
  return origin;
}

/// What describes the run in its folder.
rundir::RunTexts texts_of(const job::Job& job, const data::Source& source,
                          const std::vector<std::string>& command) {
  return {.config = config::shown_yaml(job.config),
          .plan = without_styles(screen::to_text(job::summary_rows(job))) + "\n" +
                  plan::to_text(job.plan, job.graphs),
          .kernel_table = job.kernel_table,
          .tokenizer = source.tokenizer() == nullptr ? "" : source.tokenizer()->to_text() + "\n",
          .command = command,
          .build = {job::build_json(), job::libraries_json()}};
}

/// On the first rank, once all that can fail has worked: the folder becomes this run's.
rundir::Session open_run(const Shared& run, const std::optional<checkpoint::Found>& origin) {
  const std::string& dir = run.job.config.dir;
  const rundir::Session session = rundir::open_run_directory(
      run.request, run.start, origin, run.facts,
      texts_of(run.job, run.source, run.arguments.command), run.arguments.variable);
  run.log.keep(join_path(dir, rundir::RunFiles::log),
               run.start.overwrites ? screen::Log::Existing::replace : screen::Log::Existing::keep);
  if (run.start.begins_anew)
    run.log.info(
        format("{}: the run there ended before its first checkpoint; it begins anew", dir));
  return session;
}

train::BestSoFar best_of(const checkpoint::Manifest& manifest) {
  train::BestSoFar best;
  for (const checkpoint::Evaluated& one : manifest.best)
    best.lowest.push_back({one.step, one.loss});
  best.since_best = manifest.since_best;
  return best;
}

/// What is left to do once all steps are done.
void finish(const Shared& run, std::int64_t steps, run::Executor& executor, comm::World* world,
            std::optional<TensorboardLog>& tensorboard, const train::TrainResult& result) {
  save_weights(run.job, steps, executor, world);
  const rundir::Outcome outcome(run.arguments.variable);
  if (result.was_stopped) {
    if (is_first(world)) outcome.stopped(steps, run.job.config.train.steps);
    return;
  }
  const std::string sample = show_sample(run.job, run.source, executor, world);
  if (tensorboard && !sample.empty()) tensorboard->text("samples/text", as_block(sample));
  if (!is_first(world)) return;
  say_where(run.job, steps, result.ended_early, run.log);
  outcome.done(steps, run.job.config.train.steps);
}

train::TraceSpec trace_spec(const Shared& run) {
  const std::string& dir = run.job.config.dir;
  const std::string path = join_path(dir, rundir::RunFiles::trace);
  return {.num_steps = run.arguments.trace,
          .path = path,
          .program_of =
              [&](Rank rank) {
                return job::bundle_of(run.job, static_cast<std::int64_t>(rank.index())).at("train");
              },
          .written =
              [&, path](std::size_t steps) {
                run.log.info(
                    format("{:<11} {} step{} in {}; look at it with `fourfold trace "
                           "summary {}` or in ui.perfetto.dev",
                           "trace", steps, steps == 1 ? "" : "s", path, dir));
              }};
}

/// What each rank of the job does; whether it was stopped.
bool train_rank(const Shared& run, const program::Bundle& bundle, comm::World* world) {
  const job::Job& job = run.job;
  const Stopwatch binding;
  const auto backend = job::make_backend(job, world, format("file {}", run.source.name()));
  run::Executor executor(bundle, *backend);
  train::RunFacts facts = facts_of(job, run.source.unit(), run.peak);
  facts.ranks_share_cores = !run.shared_cores.empty();
  std::optional<train::Tracing> tracing;
  if (run.arguments.trace > 0) tracing.emplace(trace_spec(run), executor, world);
  checkpoint::Store store = rundir::store_of(job.config.dir);
  const std::optional<checkpoint::Found> origin = bring_back(run, store, executor, world);
  const std::int64_t first_step = origin ? origin->manifest.step : 0;
  if (origin && job::has_same_validation(origin->manifest, job.config, run.source))
    facts.best = best_of(origin->manifest);
  std::optional<rundir::Session> session;
  if (is_first(world)) session = open_run(run, origin);
  train::Checkpoints checkpoints(job.config.train.checkpoint, store, executor, world,
                                 checkpoint_facts(run), run.stop_asked,
                                 {[&](const std::string& text) { run.log.info(text); },
                                  [&](const std::string& text) { run.log.warn(text); }});
  train::Course course{
      .first_step = first_step, .stop_at = run.arguments.stop_at, .checkpoints = &checkpoints};
  add_samples(course, job, run.source, executor);
  if (origin) checkpoints.set_origin(*origin);
  if (!job.config.init_from.empty()) course.after_init = [&] { load_initial_model(job, executor); };
  std::optional<TensorboardLog> tensorboard;
  if (is_first(world) && job.config.tensorboard)
    start_tensorboard(tensorboard, job, first_step, run.log);
  std::vector<train::Observer*> observers;
  if (tracing) observers.push_back(&*tracing);
  if (tensorboard) observers.push_back(&*tensorboard);
  if (is_first(world))
    rundir::Outcome(run.arguments.variable).begin(first_step, job.config.train.steps);
  train::TrainResult result;
  if (origin && job::is_over(origin->manifest, job.config)) {
    run.log.info("all steps are done; what is missing is the weights, which are written now");
    result.ended_early = true;  // also where the last of all steps was not reached
  } else if (!is_first(world)) {
    result = train::train(job.config.train, facts, executor, run.source, observers, world, course);
  } else {
    run.log.debug(format("memory, kernels and streams ready in {}", binding.text()));
    result = train_and_tell(run, facts, executor, world, observers, course);
  }
  const std::int64_t steps = std::max(result.steps, first_step);
  finish(run, steps, executor, world, tensorboard, result);
  if (session) rundir::end_session(*session, steps);
  return result.was_stopped;
}

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
};

/// Reads configuration and data, plans and compiles. `threads` are those of a rank, unless the
/// configuration says otherwise.
Prepared prepare(const TrainArguments& arguments, std::optional<std::int64_t> ranks,
                 std::optional<int> threads) {
  const Stopwatch reading;
  config::Config config = load_config(arguments.config);
  if (threads && config.threads == 0) config.threads = *threads;
  std::unique_ptr<const data::Source> source = job::load_data(config);
  if (config.sample.tokens > 0) source->tokenizer()->encode(config.sample.prompt, "sample.prompt");
  std::string reading_time = reading.text();
  const Stopwatch compiling;
  job::Job job = job::make_job(std::move(config), job::Graphs::of_run, ranks);
  if (job.device == job::Device::cpu) job::check_trainable(job.config);
  job::require_device(job);
  train::check_trace(job.config.train.steps, arguments.trace);
  return {std::move(source), std::move(job), std::move(reading_time), compiling.text()};
}

/// Shows what is about to happen. Nothing of it is in the run directory yet.
void show_start(const TrainArguments& arguments, const Prepared& run, const rundir::JobFacts& facts,
                const std::optional<job::MeasuredPeak>& peak, std::size_t ranks_here,
                const rundir::RunStart& start, screen::Log& log) {
  log.set_level(screen::log_level(run.job.config.log_level));
  log.debug(format("configuration and data read in {}, planned and compiled in {}",
                   run.reading_time, run.compiling_time));
  log.info(
      screen::to_text(startup_rows(run.job, *run.source, facts, peak, ranks_here), log.columns()));
  for (const std::string& warning : run.source->warnings()) log.warn(warning);
  if (start.point) {
    for (const checkpoint::Refused& refused : start.point->refused)
      log.warn(format("a newer checkpoint is damaged and passed over: {}", refused.why));
    log.info(format("going on from step {} of {}: {}\n", start.point->found.manifest.step,
                    run.job.config.train.steps, start.point->found.path));
  }
  if (!arguments.dry_run) return;
  if (start.point)
    rundir::check_bytes(*start.point, resumable(arguments, run.job, *run.source), log);
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

/// What the run wants of its folder.
rundir::StartRequest request_of(const TrainArguments& arguments, const Prepared& run) {
  const job::Job& job = run.job;
  const train::CheckpointSpec& spec = job.config.train.checkpoint;
  const program::Program& train = job.bundle().at("train");
  const auto check_point = [&](const rundir::ResumePoint& point, bool is_own) {
    const std::int64_t step = point.found.manifest.step;
    job::check_start(point.found, job, *run.source,
                     {.overrides = arguments.resume.overrides,
                      .stop_at = arguments.stop_at,
                      .is_complete = !is_own || rundir::has_final_weights(job.config.dir, step)});
  };
  return {.dir = job.config.dir,
          .how = arguments.resume.how,
          .overwrites = arguments.overwrite,
          .is_dry = arguments.dry_run,
          .holder = rundir::this_holder(arguments.variable),
          .weights_bytes = checkpoint::parameter_bytes(train),
          .checkpoint_bytes = spec.is_on() ? checkpoint::whole_bytes(train) : 0,
          .checkpoints_kept = spec.keep_last,
          .check_point = check_point,
          .check_beginning = [&] { check_initial_model(job, *run.source); }};
}

/// Looks into the run directory, which is held from then on unless the run is a dry one. For rank
/// 0.
rundir::RunStart look_at_start(const TrainArguments& arguments, const rundir::StartRequest& request,
                               std::unique_ptr<rundir::RunLock>& lock) {
  if (arguments.dry_run)
    rundir::require_unlocked(request.dir, request.holder, arguments.take_over);
  else
    lock = lock_run(arguments, request);
  return rundir::plan_start(request);
}

/// Before anything was written.
void refuse_if_stopped(bool is_asked) {
  if (is_asked)
    throw UserError(
        ExitCode::stopped,
        "stopped, as asked, before anything was written; the same command begins again");
}

double watchdog_s(const config::Config& config) {
  // Progress is counted in instructions, of which the longest takes seconds on a slow machine.
  constexpr double automatic_s = 120;
  return config.watchdog_s > 0 ? config.watchdog_s : automatic_s;
}

/// What the watch over ranks goes by before they have agreed on anything. What is wrong with the
/// configuration is said later, by one of them.
comm::LaunchOptions first_options(const TrainArguments& arguments) {
  comm::LaunchOptions options;
  options.ask_to_stop = comm::StopRequest::ask;
  options.report = screen::report_error;
  try {
    options.watchdog_s = watchdog_s(load_config(arguments.config));
  } catch (const UserError&) {
    options.watchdog_s = watchdog_s({});
  }
  return options;
}

comm::LaunchOptions launch_options(const job::Job& job, screen::Log& log) {
  return {.watchdog_s = watchdog_s(job.config),
          .status_folder = join_path(job.config.dir, rundir::RunFiles::status),
          .flush = [&log] { log.status(""); },
          .ask_to_stop = comm::StopRequest::ask,
          .report = screen::report_error};
}

screen::Log make_log(const TrainArguments& arguments) {
  // mpirun gives its ranks a terminal of their own, wherever their output ends up.
  const int output = arguments.launcher.launched_by_mpi() ? screen::Terminal::none : STDOUT_FILENO;
  return {Level::info,
          screen::terminal_of(output, screen::color_choice(arguments.color), arguments.variable)};
}

void train_threads(const TrainArguments& arguments) {
  // A line of its own, wherever the moving line or the terminal's ^C has left the cursor.
  const comm::StopRequest stop(
      "\nasked to stop: the run saves and ends after the step that is under way; ask again to end "
      "it at once\n");
  screen::Log log = make_log(arguments);
  const Prepared run = prepare(arguments, std::nullopt, std::nullopt);
  const job::Job& job = run.job;
  job::check_memory(job, job.ranks(), job::checkpoint_copy_bytes(job));
  rundir::JobFacts facts;
  facts.ranks = static_cast<std::size_t>(job.ranks());
  facts.threads_per_rank = job.target.threads;
  std::optional<job::MeasuredPeak> peak;
  if (!arguments.dry_run) peak = job::find_peak(job, arguments.variable);
  if (peak) facts.measured_peak = job::to_json(*peak);
  refuse_if_stopped(stop.flag());
  std::unique_ptr<rundir::RunLock> lock;
  const rundir::StartRequest request = request_of(arguments, run);
  const rundir::RunStart start = look_at_start(arguments, request, lock);
  show_start(arguments, run, facts, peak, facts.ranks, start, log);
  if (arguments.dry_run) return;
  const Shared shared{arguments, job,         *run.source,
                      facts,     peak,        request,
                      start,     stop.flag(), shared_cores(facts, facts.ranks),
                      log};
  std::atomic<bool> was_stopped{false};
  comm::run_threads(job.ranks(), launch_options(job, log), [&](comm::World* world) {
    const auto rank =
        world == nullptr ? std::int64_t{0} : static_cast<std::int64_t>(world->rank().index());
    if (train_rank(shared, job::bundle_of(job, rank), world)) was_stopped = true;
  });
  if (was_stopped) throw UserError(ExitCode::stopped, stopped_text(arguments, job.config));
}

/// Warnings of all ranks, on the first; equal ones are folded.
void tell_warnings(const job::Job& job, comm::World& world, const rundir::JobFacts& facts,
                   const std::string& own, screen::Log& log) {
  const std::vector<std::string> texts = world.all_gather(own);
  if (!is_first(&world)) return;
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty())
      log.warn_from(
          screen::rank_tag(rank, facts.hosts[rank], screen::grid_place(job.plan.meshes[0], rank)),
          texts[rank]);
}

/// Whether any rank was asked to stop; all ranks call together.
bool is_stop_asked(const comm::StopRequest& stop, comm::World& world) {
  std::int64_t vote = stop.flag() ? 1 : 0;
  world.all_reduce(std::span(&vote, 1), Reduction::max);
  return vote != 0;
}

/// What one rank does from its first word to the others to its last; whether it was stopped. The
/// log and the lock of the run directory outlive the watch over the ranks, which ends them too.
bool train_process(const TrainArguments& arguments, const comm::StopRequest& stop, screen::Log& log,
                   std::unique_ptr<rundir::RunLock>& lock, comm::ProcessJob& processes) {
  comm::World& world = processes.world();
  const comm::ThreadAdvice advice = comm::advise_threads(world);
  std::optional<Prepared> run;
  processes.together([&] {
    run = prepare(arguments, static_cast<std::int64_t>(world.size()), advice.threads);
    job::check_memory(run->job, static_cast<std::int64_t>(world.local_size()),
                      job::checkpoint_copy_bytes(run->job));
  });
  rundir::JobFacts facts{.ranks = world.size(),
                         .are_processes = true,
                         .threads_per_rank = run->job.target.threads,
                         .hosts = world.all_gather(comm::own_placement().host),
                         .mpi = comm::mpi_library(),
                         .measured_peak = {}};
  std::vector<job::CommonFact> common;
  processes.together(
      [&] { common = job::common_facts(run->job, *run->source, arguments.variable); });
  processes.together([&] { job::require_common(common, facts.hosts, world); });
  std::optional<job::MeasuredPeak> peak;
  if (!arguments.dry_run) peak = job::find_peak(run->job, world, arguments.variable);
  if (peak) facts.measured_peak = job::to_json(*peak);
  const bool must_stop = is_stop_asked(stop, world);
  processes.together([&] { refuse_if_stopped(must_stop); });
  // Rank 0 alone looks for a checkpoint; others are told.
  const rundir::StartRequest request = request_of(arguments, *run);
  rundir::RunStart start;
  processes.together([&] {
    if (is_first(&world)) start = look_at_start(arguments, request, lock);
  });
  start.point = rundir::share(start.point, world);
  processes.together([&] {
    if (is_first(&world)) show_start(arguments, *run, facts, peak, world.local_size(), start, log);
  });
  tell_warnings(run->job, world, facts, advice.warning, log);
  if (arguments.dry_run) return false;
  const Shared shared{arguments, run->job,    *run->source,
                      facts,     peak,        request,
                      start,     stop.flag(), shared_cores(facts, world.local_size()),
                      log};
  comm::LaunchOptions options = launch_options(run->job, log);
  // A process that ends at once must not leave its lock.
  options.flush = [&] {
    log.status("");
    lock.reset();
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
  const comm::StopRequest stop;
  screen::Log log = make_log(arguments);
  std::unique_ptr<rundir::RunLock> lock;
  comm::ProcessJob processes(arguments.launcher, first_options(arguments));
  bool was_stopped = false;
  processes.run([&] { was_stopped = train_process(arguments, stop, log, lock, processes); });
  if (was_stopped) throw UserError(ExitCode::stopped, "");
}

}  // namespace

void train(const TrainArguments& arguments) {
  comm::ignore_broken_pipes();  // who reads the output may leave
  if (arguments.launcher.launched_by_mpi())
    train_processes(arguments);
  else
    train_threads(arguments);
  if (arguments.dry_run) rundir::Outcome(arguments.variable).done(0, 0);
}

}  // namespace fourfold::cli
