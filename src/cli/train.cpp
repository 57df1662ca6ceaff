#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/styled_text.h"
#include "base/units.h"
#include "checkpoint/model_file.h"
#include "checkpoint/restore.h"
#include "cli/build_info.h"
#include "cli/commands.h"
#include "cli/end_summary.h"
#include "cli/handshake.h"
#include "cli/initial_model.h"
#include "cli/job.h"
#include "cli/launch.h"
#include "cli/log.h"
#include "cli/report_error.h"
#include "cli/restore_run.h"
#include "cli/run_directory.h"
#include "cli/run_files.h"
#include "cli/run_lock.h"
#include "cli/run_record.h"
#include "cli/startup.h"
#include "cli/stop_request.h"
#include "cli/summary.h"
#include "cli/tensorboard_log.h"
#include "cli/terminal.h"
#include "cli/tracing.h"
#include "cli/warning_fold.h"
#include "comm/mpi.h"
#include "comm/termination.h"
#include "config/print.h"
#include "generate/generate.h"
#include "model/gpt.h"
#include "plan/plan.h"
#include "run/executor.h"
#include "train/checkpoints.h"
#include "train/console.h"
#include "train/metrics.h"
#include "train/session.h"

namespace fourfold::cli {
namespace {

train::RunFacts facts_of(const Job& job, const std::optional<Peak>& peak) {
  const plan::Batching& b = job.plan.batching;
  train::RunFacts facts;
  facts.tokens_per_step = b.global_batch * b.length;
  facts.model_flops_per_step =
      model::model_flops_per_step(job.config.model, b.global_batch, b.length);
  facts.memory_bytes =
      job.bundle.persistent_bytes + job.bundle.transient_bytes + checkpoint_copy_bytes(job);
  if (peak) facts.peak_flops = peak->flops_per_s;
  facts.peak_is_measured = peak.has_value();
  return facts;
}

/// Whether this rank speaks for the job.
bool is_first(const comm::World* world) {
  return world == nullptr || world->rank().index() == 0;
}

void save_weights(const Job& job, run::Executor& executor, comm::World* world) {
  checkpoint::save_model(
      join_path(job.config.dir, RunFiles::weights), executor.bundle().at("train"),
      [&](const program::Buffer& b) { return executor.read(b); }, world);
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
  Observers(const Job& job, const train::RunFacts& facts, Log& log,
            std::span<train::Observer* const> more, train::MetricsFile::Existing existing)
      : console(log, job.config.train, facts),
        metrics(join_path(job.config.dir, RunFiles::metrics), existing,
                [&log](const std::string& text) { log.warn(text); }),
        summary(facts),
        all{&console, &metrics, &summary} {
    all.insert(all.end(), more.begin(), more.end());
  }

  train::Console console;
  train::MetricsFile metrics;
  EndSummary summary;
  std::vector<train::Observer*> all;
};

/// All ranks compute the sample together, the first one prints it and returns it.
std::string show_sample(const Job& job, const data::Dataset& dataset, run::Executor& executor,
                        const comm::World* world) {
  const generate::SampleSpec& spec = job.config.sample;
  if (spec.tokens == 0) return {};
  if (!is_first(world)) return generate::generate(spec, dataset.tokenizer(), executor).text;
  std::printf("\nsample (%lld tokens, temperature %g):\n%s", static_cast<long long>(spec.tokens),
              spec.temperature, spec.prompt.c_str());
  const auto print = [](std::string_view piece) {
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
  };
  const std::string text = generate::generate(spec, dataset.tokenizer(), executor, print).text;
  std::printf("\n");
  write_file_atomic(join_path(job.config.dir, RunFiles::sample), spec.prompt + text + "\n");
  return spec.prompt + text;
}

/// Where everything lies, and what can be done with it.
void say_where(const Job& job, Log& log) {
  const std::string& dir = job.config.dir;
  Rows rows = {{"weights", join_path(dir, RunFiles::weights)},
               {"metrics", join_path(dir, RunFiles::metrics)},
               {"log", join_path(dir, RunFiles::log)},
               {"again", format("sh {} --set run.dir=DIR",
                                shell_quoted(join_path(dir, RunFiles::command)))}};
  if (job.config.sample.tokens > 0)
    rows.push_back(
        {"write more", format("fourfold generate {} --prompt \"...\"", shell_quoted(dir))});
  std::string text = "\n" + to_text(rows, log.columns());
  text.pop_back();
  log.info(text);
}

/// What the ranks of a run share.
struct Shared {
  const TrainArguments& arguments;
  const Job& job;
  const data::Dataset& dataset;
  const std::optional<Peak>& peak;
  const std::optional<ResumePoint>& point;
  const std::atomic<bool>& stop_asked;
  Log& log;
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
  const BuildInfo build = build_info();
  facts.version = format("Fourfold {} ({})", build.version, build.commit);
  facts.config = config::resolved_yaml(run.job.config);
  facts.data = run.dataset.fingerprint();
  facts.tokenizer = run.dataset.tokenizer().to_text();
  facts.grid = grid_words(run.job.plan.meshes[0]);
  return facts;
}

/// What the first rank does beside the training: it tells.
train::TrainResult train_and_tell(const Shared& run, const train::RunFacts& facts,
                                  run::Executor& executor, comm::World* world,
                                  std::span<train::Observer* const> more,
                                  const train::Course& course) {
  using Existing = train::MetricsFile::Existing;
  Observers observers(run.job, facts, run.log, more,
                      course.first_step > 0 ? Existing::keep : Existing::replace);
  const train::TrainResult result = train::train(run.job.config.train, facts, executor, run.dataset,
                                                 observers.all, world, course);
  run.log.info("\n" + observers.summary.text(run.log.columns(), run.log.is_unicode()));
  return result;
}

void start_tensorboard(std::optional<TensorboardLog>& tensorboard, const Job& job,
                       std::int64_t first_step, Log& log) {
  tensorboard.emplace(real_files(), join_path(job.config.dir, RunFiles::tensorboard), first_step,
                      log);
  tensorboard->text("run/config", as_block(config::resolved_yaml(job.config)));
  tensorboard->text("run/plan", as_block(without_styles(to_text(summary_rows(job)))));
}

/// What each rank of the job does; whether it was stopped.
bool train_rank(const Shared& run, const program::Bundle& bundle, comm::World* world) {
  const Job& job = run.job;
  const Stopwatch binding;
  const auto backend = make_backend(job, world, format("file {}", run.dataset.name()));
  run::Executor executor(bundle, *backend);
  const train::RunFacts facts = facts_of(job, run.peak);
  std::optional<Tracing> tracing;
  if (run.arguments.trace > 0)
    tracing.emplace(job, run.arguments.trace, executor, world,
                    is_first(world) ? &run.log : nullptr);
  checkpoint::Store store = store_of(job.config);
  train::Checkpoints checkpoints(job.config.train.checkpoint, store, executor, world,
                                 checkpoint_facts(run), run.stop_asked,
                                 {[&](const std::string& text) { run.log.info(text); },
                                  [&](const std::string& text) { run.log.warn(text); }});
  train::Course course{
      .first_step = 0, .stop_at = run.arguments.stop_at, .checkpoints = &checkpoints};
  if (run.point) {
    const checkpoint::Found origin =
        restore_run(run.arguments, job, run.dataset, *run.point, store, executor, world, run.log);
    course.first_step = origin.manifest.step;
    checkpoints.set_origin(origin);
  }
  if (!job.config.init_from.empty()) course.after_init = [&] { load_initial_model(job, executor); };
  std::optional<TensorboardLog> tensorboard;
  if (is_first(world) && job.config.tensorboard)
    start_tensorboard(tensorboard, job, course.first_step, run.log);
  std::vector<train::Observer*> observers;
  if (tracing) observers.push_back(&*tracing);
  if (tensorboard) observers.push_back(&*tensorboard);
  train::TrainResult result;
  if (!is_first(world)) {
    result = train::train(job.config.train, facts, executor, run.dataset, observers, world, course);
  } else {
    run.log.debug(format("memory, kernels and streams ready in {}", binding.text()));
    result = train_and_tell(run, facts, executor, world, observers, course);
  }
  save_weights(job, executor, world);
  if (result.was_stopped) return true;
  const std::string sample = show_sample(job, run.dataset, executor, world);
  if (tensorboard && !sample.empty()) tensorboard->text("samples/text", as_block(sample));
  if (is_first(world)) say_where(job, run.log);
  return false;
}

std::string stopped_text(const config::Config& config) {
  return format("stopped, as asked; the same command goes on from the last checkpoint in {}",
                config.dir);
}

/// What is known before any rank starts.
struct Prepared {
  data::Dataset dataset;
  Job job;
  std::string reading_time, compiling_time;
};

/// Reads configuration and data, plans and compiles. `threads` are those of a rank, unless the
/// configuration says otherwise.
Prepared prepare(const TrainArguments& arguments, std::optional<std::int64_t> ranks,
                 std::optional<int> threads) {
  const Stopwatch reading;
  config::Config config = load_config(arguments.config);
  if (threads && config.threads == 0) config.threads = *threads;
  data::Dataset dataset = load_data(config);
  if (config.sample.tokens > 0) dataset.tokenizer().encode(config.sample.prompt, "sample.prompt");
  std::string reading_time = reading.text();
  const Stopwatch compiling;
  Job job = make_job(std::move(config), Graphs::of_run, ranks);
  if (job.device == Device::cpu) check_trainable(job.config);
  require_device(job);
  check_trace(job, arguments.trace);
  return {std::move(dataset), std::move(job), std::move(reading_time), compiling.text()};
}

/// Opens the run directory and the log, and shows what is about to happen.
void open_run(const TrainArguments& arguments, const Prepared& run, const JobFacts& facts,
              std::size_t ranks_here, const std::optional<ResumePoint>& point, Log& log) {
  if (!point) check_initial_model(run.job, run.dataset);
  if (!arguments.dry_run) {
    const std::string& dir = run.job.config.dir;
    const bool begins_anew = open_run_directory(arguments, run.job, run.dataset, facts, point);
    log.keep(join_path(dir, RunFiles::log));
    if (begins_anew)
      log.info(format("{}: the run there ended before its first checkpoint; it begins anew", dir));
  }
  log.set_level(log_level(run.job.config.log_level));
  log.debug(format("configuration and data read in {}, planned and compiled in {}",
                   run.reading_time, run.compiling_time));
  log.info(to_text(startup_rows(run.job, run.dataset, facts, ranks_here), log.columns()));
  if (point) {
    for (const checkpoint::Refused& refused : point->refused)
      log.warn(format("a newer checkpoint is damaged and passed over: {}", refused.why));
    log.info(format("going on from step {} of {}: {}\n", point->found.manifest.step,
                    run.job.config.train.steps, point->found.path));
  }
  if (arguments.dry_run) log.info("dry run: nothing was written");
}

/// The run directory, held for this job. Lost while it stood still: it ends at once.
std::unique_ptr<RunLock> lock_run(const TrainArguments& arguments, const Job& job) {
  LockOptions options{.take_over = arguments.take_over, .on_lost = [](const std::string& text) {
                        report_error(text);
                        std::_Exit(static_cast<int>(ExitCode::output_in_use));
                      }};
  return std::make_unique<RunLock>(job.config.dir, this_holder(arguments.variable),
                                   std::move(options));
}

/// Before anything was written.
void refuse_if_stopped(bool is_asked) {
  if (is_asked)
    throw UserError(
        ExitCode::stopped,
        "stopped, as asked, before anything was written; the same command begins again");
}

LaunchOptions launch_options(const Job& job, Log& log) {
  // Progress is counted in instructions, of which the longest takes seconds on a slow machine.
  constexpr double automatic_s = 120;
  const double watchdog_s = job.config.watchdog_s;
  return {.watchdog_s = watchdog_s > 0 ? watchdog_s : automatic_s,
          .status_folder = join_path(job.config.dir, RunFiles::status),
          .flush = [&log] { log.status(""); },
          .ask_to_stop = StopRequest::ask};
}

Log make_log(const TrainArguments& arguments) {
  // mpirun gives its ranks a terminal of their own, wherever their output ends up.
  const int output = arguments.launcher.launched_by_mpi() ? Terminal::none : STDOUT_FILENO;
  return {train::Level::info,
          terminal_of(output, color_choice(arguments.color), arguments.variable)};
}

void train_threads(const TrainArguments& arguments) {
  const StopRequest stop;
  Log log = make_log(arguments);
  const Prepared run = prepare(arguments, std::nullopt, std::nullopt);
  const Job& job = run.job;
  check_memory(job, job.ranks(), checkpoint_copy_bytes(job));
  JobFacts facts;
  facts.ranks = static_cast<std::size_t>(job.ranks());
  facts.threads_per_rank = job.target.threads;
  if (!arguments.dry_run) facts.peak = measure_peak(job);
  refuse_if_stopped(stop.flag());
  const auto lock = arguments.dry_run ? nullptr : lock_run(arguments, job);
  const auto point = resume_point(arguments, job, run.dataset);
  open_run(arguments, run, facts, facts.ranks, point, log);
  if (arguments.dry_run) return;
  const Shared shared{arguments, job, run.dataset, facts.peak, point, stop.flag(), log};
  std::atomic<bool> was_stopped{false};
  run_threads(job.ranks(), launch_options(job, log), [&](comm::World* world) {
    const auto rank =
        world == nullptr ? std::int64_t{0} : static_cast<std::int64_t>(world->rank().index());
    if (train_rank(shared, bundle_of(job, rank), world)) was_stopped = true;
  });
  if (was_stopped) throw UserError(ExitCode::stopped, stopped_text(job.config));
}

/// Warnings of all ranks, on the first; equal ones are folded.
void tell_warnings(const Job& job, comm::World& world, const JobFacts& facts,
                   const std::string& own, Log& log) {
  const std::vector<std::string> texts = world.all_gather(own);
  if (!is_first(&world)) return;
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty())
      log.warn_from(rank_tag(rank, facts.hosts[rank], grid_place(job.plan.meshes[0], rank)),
                    texts[rank]);
}

/// Whether any rank was asked to stop; all ranks call together.
bool is_stop_asked(const StopRequest& stop, comm::World& world) {
  std::int64_t vote = stop.flag() ? 1 : 0;
  world.all_reduce(std::span(&vote, 1), Reduction::max);
  return vote != 0;
}

void train_processes(const TrainArguments& arguments) {
  const StopRequest stop;
  ProcessJob processes(arguments.launcher);
  comm::World& world = processes.world();
  const comm::ThreadAdvice advice = comm::advise_threads(world);
  std::optional<Prepared> run;
  Log log = make_log(arguments);
  processes.together([&] {
    run = prepare(arguments, static_cast<std::int64_t>(world.size()), advice.threads);
    check_memory(run->job, static_cast<std::int64_t>(world.local_size()),
                 checkpoint_copy_bytes(run->job));
  });
  JobFacts facts{.ranks = world.size(),
                 .are_processes = true,
                 .threads_per_rank = run->job.target.threads,
                 .hosts = world.all_gather(comm::own_placement().host),
                 .mpi = comm::mpi_library(),
                 .peak = std::nullopt};
  std::vector<CommonFact> common;
  processes.together([&] { common = common_facts(run->job, run->dataset, arguments.variable); });
  processes.together([&] { require_common(common, facts.hosts, world); });
  if (!arguments.dry_run) facts.peak = measure_peak(run->job, world);
  const bool must_stop = is_stop_asked(stop, world);
  processes.together([&] { refuse_if_stopped(must_stop); });
  // Rank 0 alone looks for a checkpoint; others are told.
  std::unique_ptr<RunLock> lock;
  std::optional<ResumePoint> point;
  processes.together([&] {
    if (!is_first(&world)) return;
    if (!arguments.dry_run) lock = lock_run(arguments, run->job);
    point = resume_point(arguments, run->job, run->dataset);
  });
  point = share(point, world);
  processes.together([&] {
    if (is_first(&world)) open_run(arguments, *run, facts, world.local_size(), point, log);
  });
  tell_warnings(run->job, world, facts, advice.warning, log);
  bool was_stopped = false;
  if (!arguments.dry_run) {
    const Shared shared{arguments, run->job, run->dataset, facts.peak, point, stop.flag(), log};
    LaunchOptions options = launch_options(run->job, log);
    // A process that ends at once must not leave its lock.
    options.flush = [&] {
      log.status("");
      lock.reset();
    };
    processes.run(options, [&](comm::World* ranks) {
      const auto rank = static_cast<std::int64_t>(ranks->rank().index());
      was_stopped = train_rank(shared, bundle_of(run->job, rank), ranks);
    });
  }
  // Said before any rank ends: a launcher ends all when the first one does, with this code.
  if (was_stopped && is_first(&world)) log.info(stopped_text(run->job.config));
  processes.finish();
  if (was_stopped) throw UserError(ExitCode::stopped, "");
}

}  // namespace

void train(const TrainArguments& arguments) {
  comm::ignore_broken_pipes();  // who reads the output may leave
  if (arguments.launcher.launched_by_mpi())
    train_processes(arguments);
  else
    train_threads(arguments);
}

}  // namespace fourfold::cli
