#include "training_run/train_rank.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/file_system.h"
#include "base/format.h"
#include "base/stopwatch.h"
#include "base/styled_text.h"
#include "base/units.h"
#include "checkpoint/model_files.h"
#include "checkpoint/save_model.h"
#include "config/print.h"
#include "generate/generate.h"
#include "interop/tensorboard_log.h"
#include "job/job.h"
#include "job/recomputed_flops.h"
#include "job/resume_rules.h"
#include "measure/build_info.h"
#include "measure/peak.h"
#include "model/model.h"
#include "plan/plan.h"
#include "run/executor.h"
#include "rundir/open.h"
#include "rundir/outcome.h"
#include "rundir/run_files.h"
#include "rundir/run_record.h"
#include "rundir/sessions.h"
#include "rundir/start.h"
#include "screen/log.h"
#include "screen/print.h"
#include "screen/rows.h"
#include "show/summary.h"
#include "train/checkpoints.h"
#include "train/console.h"
#include "train/metrics.h"
#include "train/session.h"
#include "train/tracing.h"
#include "training_run/end_summary.h"
#include "training_run/initial_model.h"
#include "training_run/predicted_run.h"
#include "training_run/train.h"

namespace fourfold::training_run {
namespace {

/// Writes the weights after so many steps.
void save_weights(const job::Job& job, std::int64_t steps, run::Executor& executor,
                  comm::World* world) {
  checkpoint::save_model(job.settled.dir(), checkpoint::JobState(job.programs),
                         [&](const program::Buffer& b) { return executor.read(b); }, world,
                         {.max_file_bytes = job.settled.config().weights_file_mib << 20,
                          .metadata = {{"step", format("{}", steps)}}});
}

/// Those who watch a run, on the first rank.
struct Observers {
  Observers(const job::Job& job, const train::RunFacts& facts, const std::string& shared_cores,
            screen::Log& log, std::span<train::Observer* const> more,
            train::MetricsFile::Existing existing)
      : console(log, job.settled.train(), facts),
        metrics(join_path(job.settled.dir(), rundir::RunFiles::metrics), existing,
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

std::string sample_path(const job::Job& job) {
  return join_path(job.settled.dir(), rundir::RunFiles::sample);
}

/// All ranks compute the sample together, the first one prints it and returns it. Nothing is
/// returned where a stop cuts it: it is missing then, and whoever goes on writes it.
std::optional<std::string> show_sample(const job::Job& job, const data::Source& source,
                                       run::Executor& executor, const comm::World* world,
                                       const train::Checkpoints& checkpoints) {
  const generate::SampleSpec spec = job.settled.sample();
  if (spec.tokens == 0) return "";
  train::StopLooks looks(checkpoints);
  const auto must_end = [&] { return looks.must_end(); };
  const auto write = [&](const generate::OnText& show) {
    return generate::generate(spec, *source.tokenizer(), executor, show, 0, generate::Cache::keep,
                              must_end);
  };
  if (!is_first(world)) {
    const generate::Writing writing = write({});
    return writing.was_cut ? std::nullopt : std::optional(writing.text);
  }
  if (file_exists(sample_path(job))) real_files().remove_file(sample_path(job));
  screen::print("\nsample (%lld tokens, temperature %g):\n%s", static_cast<long long>(spec.tokens),
                spec.temperature, spec.prompt.c_str());
  const auto show = [](std::string_view piece) {
    screen::print_text(piece);
    std::fflush(stdout);
  };
  const generate::Writing writing = write(show);
  screen::print("\n");
  if (writing.was_cut) return std::nullopt;
  write_file_atomic(sample_path(job), spec.prompt + writing.text + "\n");
  return spec.prompt + writing.text;
}

/// The texts that the model writes between steps, prompt and all.
void add_samples(train::Course& course, const job::Job& job, const data::Source& source,
                 run::Executor& executor) {
  course.sample_interval = job.settled.config().sample.interval;
  course.write_sample = [&job, &source, &executor,
                         &checkpoints = *course.checkpoints]() -> std::optional<std::string> {
    const generate::SampleSpec spec = job.settled.sample();
    train::StopLooks looks(checkpoints);
    const generate::Writing writing =
        generate::generate(spec, *source.tokenizer(), executor, {}, 0, generate::Cache::keep,
                           [&] { return looks.must_end(); });
    if (writing.was_cut) return std::nullopt;
    return spec.prompt + writing.text;
  };
}

/// Where everything lies, and what can be done with it. `ended_early`: the run has ended before its
/// last step, and not because it was told to.
void say_where(const TrainingRun& run, std::int64_t steps, bool ended_early) {
  const job::Job& job = run.job;
  const std::string& dir = job.settled.dir();
  Rows rows = {{"weights", run.arguments.no_weights ? "not written"
                                                    : checkpoint::find_model(dir).value_or(dir)},
               {"metrics", join_path(dir, rundir::RunFiles::metrics)},
               {"log", join_path(dir, rundir::RunFiles::log)},
               {"again", format("sh {} --set run.dir=DIR",
                                rundir::shell_quoted(join_path(dir, rundir::RunFiles::command)))}};
  if (job.settled.config().sample.tokens > 0)
    rows.push_back(
        {"write more", format("fourfold generate {} --prompt \"...\"", rundir::shell_quoted(dir))});
  if (steps < job.settled.config().train.steps && !ended_early)
    rows.push_back({"go on", format("the same command with another --stop-at, or without, for the "
                                    "other {} of {}",
                                    format_grouped(job.settled.config().train.steps - steps),
                                    counted(job.settled.config().train.steps, "step"))});
  std::string text = "\n" + screen::to_text(rows, run.log.columns());
  text.pop_back();
  run.log.info(text);
}

/// "x 2, data 4"; "one rank".
std::string grid_words(const Mesh& mesh) {
  std::string words;
  for (auto axis = mesh.axes.rbegin(); axis != mesh.axes.rend(); ++axis)
    if (axis->size > 1)
      words += format("{}{} {}", words.empty() ? "" : ", ", axis->name, axis->size);
  return words.empty() ? "one rank" : words;
}

/// What every checkpoint of the run says.
checkpoint::Manifest checkpoint_facts(const TrainingRun& run) {
  checkpoint::Manifest facts;
  facts.seed = run.job.settled.config().seed;
  const measure::BuildInfo build = measure::build_info();
  facts.version = format("Fourfold {} ({})", build.version, build.commit);
  facts.config = config::resolved_yaml(run.job.settled.config());
  facts.data = run.source.fingerprint();
  if (const tokenizer::Tokenizer* tokenizer = run.source.tokenizer())
    facts.tokenizer = tokenizer->to_text();
  for (const Mesh& mesh : run.job.plan.meshes)
    facts.grid += (facts.grid.empty() ? "" : " + ") + grid_words(mesh);
  return facts;
}

/// What the first rank does beside the training: it tells.
train::TrainResult train_and_tell(const TrainingRun& run, const train::RunFacts& facts,
                                  run::Executor& executor, comm::World* world,
                                  std::span<train::Observer* const> more,
                                  const train::Course& course, const StepsBeside* beside) {
  using Existing = train::MetricsFile::Existing;
  Observers observers(run.job, facts, run.shared_cores, run.log, more,
                      run.start.is_own ? Existing::keep : Existing::replace);
  const train::TrainResult result = train::train(run.job.settled.train(), facts, executor,
                                                 run.source, observers.all, world, course);
  if (run.peak && observers.summary.exceeds_peak())
    measure::doubt_peak(*run.peak, run.arguments.variable);
  if (result.ended_early)
    run.log.info(
        format("\nthe validation loss has not fallen in {} "
               "(eval.early_stopping): the run ends after step {}; it was lowest, {:.4f}, "
               "after step {}",
               counted(run.job.settled.config().train.early_stopping, "evaluation"), result.steps,
               result.best_val_loss, result.best_step));
  const std::optional<StepBeside> step = beside == nullptr ? std::nullopt : beside->result();
  run.log.info("\n" + observers.summary.text(run.log.columns(), run.log.is_unicode(),
                                             step ? to_rows(*step) : Rows()));
  return result;
}

void start_tensorboard(std::optional<interop::TensorboardLog>& tensorboard, const job::Job& job,
                       std::int64_t first_step, screen::Log& log) {
  tensorboard.emplace(real_files(), join_path(job.settled.dir(), rundir::RunFiles::tensorboard),
                      first_step, [&log](const std::string& text) { log.warn(text); });
  tensorboard->text("run/config", interop::as_block(config::resolved_yaml(job.settled.config())));
  tensorboard->text("run/plan",
                    interop::as_block(without_styles(screen::to_text(show::summary_rows(job)))));
}

/// The state that the run goes on from, on all ranks; nothing where it begins.
std::optional<checkpoint::Found> bring_back(const TrainingRun& run, checkpoint::Store& store,
                                            run::Executor& executor, comm::World* world) {
  std::optional<checkpoint::Found> origin;
  if (run.start.point)
    origin = rundir::restore(
        *run.start.point, store,
        {.check = run.request.check_older,
         .warn = [&](const std::string& text) { run.log.warn(text); }},
        executor.bundle().at(op::ProgramKind::train),
        [&](const program::Buffer& b) { return executor.bytes(b); }, world);
  // Nothing is written before all ranks are there. A stop that was asked for until now ends them
  // all; a later one is taken at the first step.
  run.stop.begin_saving();
  std::int64_t stops = run.stop.flag() ? 1 : 0;
  if (world != nullptr) world->all_reduce(std::span(&stops, 1), Reduction::max);
  if (stops != 0) throw UserError(ExitCode::stopped, std::string(stopped_at_start));
  return origin;
}

/// What describes the run in its folder.
rundir::RunTexts texts_of(const TrainingRun& run) {
  const job::Job& job = run.job;
  const data::Source& source = run.source;
  return {.config = config::shown_yaml(job.settled.config()),
          .plan = without_styles(screen::to_text(show::summary_rows(job))) + "\n" +
                  plan::to_text(plan::with_fit(job.plan, job.fit), job.graphs),
          .grids = run.grids,
          .layout = job.settled.plan().layout.value_or(plan::GivenLayout()).text,
          .kernel_table = job.kernel_table,
          .tokenizer = source.tokenizer() == nullptr ? "" : source.tokenizer()->to_text() + "\n",
          .command = run.arguments.command,
          .build = {measure::build_json(), measure::libraries_json()}};
}

/// On the first rank, once all that can fail has worked: the folder becomes this run's.
rundir::Session open_run(const TrainingRun& run, const std::optional<checkpoint::Found>& origin) {
  const std::string& dir = run.job.settled.dir();
  const rundir::Session session = rundir::open_run_directory(
      run.request, run.start, origin, run.facts, texts_of(run), run.arguments.variable);
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

/// What was predicted beside what was measured, for other programs. A run does not fail for it.
void write_prediction(const TrainingRun& run, const StepsBeside& beside) {
  const std::optional<StepBeside> step = beside.result();
  if (!step) return;
  try {
    write_file_atomic(join_path(run.job.settled.dir(), rundir::RunFiles::prediction),
                      to_json(*step).dump() + "\n");
  } catch (const UserError& error) {
    run.log.warn(error.what());
  }
}

/// What is left to do once all steps are done. `beside`: null where nothing was predicted. Whether
/// the run was stopped, also while it did this.
bool finish(const TrainingRun& run, std::int64_t steps, run::Executor& executor, comm::World* world,
            const train::Checkpoints& checkpoints,
            std::optional<interop::TensorboardLog>& tensorboard, const train::TrainResult& result,
            const StepsBeside* beside) {
  if (!run.arguments.no_weights) save_weights(run.job, steps, executor, world);
  if (beside != nullptr) write_prediction(run, *beside);
  const rundir::Outcome outcome(run.arguments.variable);
  std::optional<std::string> sample;
  if (!result.was_stopped) sample = show_sample(run.job, run.source, executor, world, checkpoints);
  if (!sample) {
    if (is_first(world)) outcome.stopped(steps, run.job.settled.config().train.steps);
    return true;
  }
  if (tensorboard && !sample->empty())
    tensorboard->text("samples/text", interop::as_block(*sample));
  if (!is_first(world)) return false;
  say_where(run, steps, result.ended_early);
  outcome.done(steps, run.job.settled.config().train.steps);
  return false;
}

/// A run does not fail for what cannot be compared.
void add_timeline(const TrainingRun& run, StepsBeside& beside, const trace::Timeline& measured) {
  try {
    beside.add_timeline(measured);
  } catch (const UserError& error) {
    run.log.warn(error.what());
  }
}

/// `beside`: null where nothing was predicted.
train::TraceSpec trace_spec(const TrainingRun& run, StepsBeside* beside) {
  const std::string& dir = run.job.settled.dir();
  const std::string path = join_path(dir, rundir::RunFiles::trace);
  return {.num_steps = run.arguments.trace,
          .path = path,
          .program_of =
              [&](Rank rank) {
                return job::bundle_of(run.job, static_cast<std::int64_t>(rank.index()))
                    .at(op::ProgramKind::train);
              },
          .predicted = beside == nullptr ? nullptr : &run.predicted->timeline,
          .written =
              [&run, path, dir, beside](const trace::Timeline& timeline) {
                if (beside != nullptr) add_timeline(run, *beside, timeline);
                const std::size_t steps = timeline.ranks.front().steps.size();
                run.log.info(
                    format("{:<11} {} step{} in {}; look at it with `fourfold trace "
                           "summary {}` or in ui.perfetto.dev",
                           "trace", steps, steps == 1 ? "" : "s", path, dir));
              }};
}

}  // namespace

train::RunFacts facts_of(const job::Job& job, const CountUnit& unit,
                         const std::optional<measure::MeasuredPeak>& peak) {
  const plan::Batching& b = job.plan.batching;
  train::RunFacts facts;
  facts.unit = unit;
  facts.items_per_step = b.global_batch * b.length;
  facts.model_flops_per_step =
      model::model_flops_per_step(job.settled.model(), b.global_batch, b.length);
  if (const auto again = job::recomputed_flops_per_step(job))
    facts.hardware_flops_per_step = facts.model_flops_per_step + *again;
  facts.memory_bytes = job.bundle().persistent_bytes + job.bundle().transient_bytes +
                       job::checkpoint_copy_bytes(job);
  if (peak) facts.peak_flops = peak->flops_per_s;
  facts.peak_is_measured = peak.has_value();
  return facts;
}

bool train_rank(const TrainingRun& run, const program::Bundle& bundle, comm::World* world) {
  const job::Job& job = run.job;
  const Stopwatch binding;
  const auto backend = job::make_backend(job, world, format("file {}", run.source.name()), run.gpu);
  run::Executor executor(bundle, *backend);
  train::RunFacts facts = facts_of(job, run.source.unit(), run.peak);
  facts.ranks_share_cores = !run.shared_cores.empty();
  std::optional<StepsBeside> beside;
  if (is_first(world) && run.predicted != nullptr) beside.emplace(*run.predicted);
  StepsBeside* const watch = beside ? &*beside : nullptr;
  std::optional<train::Tracing> tracing;
  if (run.arguments.trace > 0) tracing.emplace(trace_spec(run, watch), executor, world);
  checkpoint::Store store = rundir::store_of(job.settled.dir());
  const std::optional<checkpoint::Found> origin = bring_back(run, store, executor, world);
  const std::int64_t first_step = origin ? origin->manifest.step : 0;
  if (origin && job::has_same_validation(origin->manifest, job.settled.config(), run.source))
    facts.best = best_of(origin->manifest);
  std::optional<rundir::Session> session;
  if (is_first(world)) session = open_run(run, origin);
  train::Checkpoints checkpoints(job.settled.config().train.checkpoint, store, executor, world,
                                 checkpoint_facts(run), run.stop.flag(),
                                 {[&](const std::string& text) { run.log.info(text); },
                                  [&](const std::string& text) { run.log.warn(text); }});
  train::Course course{
      .first_step = first_step, .stop_at = run.arguments.stop_at, .checkpoints = &checkpoints};
  add_samples(course, job, run.source, executor);
  if (origin) {
    checkpoints.set_origin(*origin);
    course.untold = origin->manifest.untold;
  }
  if (!job.settled.config().init_from.empty())
    course.after_init = [&] { load_initial_model(job, executor); };
  std::optional<interop::TensorboardLog> tensorboard;
  if (is_first(world) && job.settled.config().tensorboard)
    start_tensorboard(tensorboard, job, first_step, run.log);
  std::vector<train::Observer*> observers;
  if (tracing) observers.push_back(&*tracing);
  if (tensorboard) observers.push_back(&*tensorboard);
  if (beside) observers.push_back(&*beside);
  if (is_first(world))
    rundir::Outcome(run.arguments.variable).begin(first_step, job.settled.config().train.steps);
  train::TrainResult result;
  if (origin && !course.untold && job::is_over(origin->manifest, job.settled.config())) {
    run.log.info("all steps are done; what is missing is written now");
    result.ended_early = true;  // also where the last of all steps was not reached
  } else if (!is_first(world)) {
    result =
        train::train(job.settled.train(), facts, executor, run.source, observers, world, course);
  } else {
    run.log.debug(
        format("memory, kernels and streams ready in {}", format_duration(binding.seconds())));
    result = train_and_tell(run, facts, executor, world, observers, course, watch);
  }
  const std::int64_t steps = std::max(result.steps, first_step);
  const bool was_stopped =
      finish(run, steps, executor, world, checkpoints, tensorboard, result, watch);
  if (session) rundir::end_session(*session, steps);
  return was_stopped;
}

}  // namespace fourfold::training_run
