#include "training_run/prepare_run.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/file.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "comm/launcher.h"
#include "comm/mpi.h"
#include "config/rules.h"
#include "job/device.h"
#include "job/handshake.h"
#include "job/peak_cache.h"
#include "job/prove_meetings.h"
#include "rundir/run_files.h"
#include "train/tracing.h"
#include "training_run/settle_prompt.h"

namespace fourfold::training_run {
namespace {

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

/// What is known of the processes of a launcher; of one that is alone nothing.
struct LaunchedRanks {
  std::optional<int> threads;            // of each
  std::optional<std::int64_t> number;    // of all
  std::optional<std::int64_t> per_host;  // where it is the same for all
  std::vector<std::string> hosts;        // by rank
  std::string warning;
};

LaunchedRanks look_at_ranks(comm::Together& together) {
  comm::World* const world = together.world();
  if (world == nullptr) return {};
  comm::ThreadAdvice advice = comm::advise_threads(*world);
  std::vector<std::string> hosts = together.gather(comm::own_placement().host);
  return {advice.threads, static_cast<std::int64_t>(world->size()), ranks_per_host(hosts),
          std::move(hosts), std::move(advice.warning)};
}

/// Configuration and data, before the job is made of them.
struct Given {
  config::Config config;
  std::unique_ptr<const data::Source> source;
  std::string reading_time;
  std::vector<std::string> notes;
};

/// What is known of the ranks is written where the configuration leaves it open.
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

/// Where the grid is the planner's: the first process chooses, and all take it. Texts are that
/// one's.
job::ChosenGrid settle_grid(const TrainArguments& arguments, config::Config& config,
                            comm::Together& together) {
  if (!config.open_axes.any()) return {};
  comm::World* const world = together.world();
  job::ChosenGrid chosen;
  together.first([&] {
    const job::RanksThere there =
        world == nullptr
            ? job::ranks_of_this_host(config)
            : job::RanksThere{static_cast<std::int64_t>(world->size()), together.ranks_here(0)};
    chosen = find_grid(arguments, config, there);
  });
  const std::string own = together.is_first() ? job::to_text(chosen) : "";
  job::settle_grid(config, job::grid_of_text(together.gather(own).front()));
  return chosen;
}

/// Plans and compiles.
PreparedRun make_run(const TrainArguments& arguments, Given given,
                     std::optional<std::int64_t> ranks) {
  const Stopwatch compiling;
  config::refuse_signals(given.config);
  PreparedRun run;
  run.job = job::make_job(std::move(given.config), job::Graphs::of_run, ranks);
  job::require_device(run.job);
  train::check_trace(run.job.config.train.steps, arguments.trace);
  run.source = std::move(given.source);
  run.reading_time = std::move(given.reading_time);
  run.compiling_time = format_duration(compiling.seconds());
  run.notes = std::move(given.notes);
  return run;
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

/// The first process finds a table for all. Where CPUs, threads or GPUs differ, what is fastest on
/// one is not on another, and all take the built-in table.
void settle_kernels(const TrainArguments& arguments, PreparedRun& run, screen::Log& log,
                    comm::Together& together) {
  if (arguments.dry_run || !job::wants_kernels(run.job)) return;
  const std::vector<std::string> machines = together.gather(job::place_of_kernels(run.job));
  if (std::ranges::any_of(machines, [&](const auto& one) { return one != machines.front(); })) {
    if (together.is_first())
      run.kernels.warnings = {
          "ranks compute on different CPUs or GPUs, or with different numbers of threads: "
          "run.kernel_table: auto is the built-in table for them"};
    return;
  }
  together.first([&] { run.kernels = find_kernels(arguments, run.job, log); });
  const std::string table = together.gather(run.kernels.table).front();
  if (!table.empty()) together.each([&] { job::use_kernels(run.job, table); });
}

/// Compiles the job again where it needs more memory than a rank of some host has, and the limit is
/// left open.
void fit_memory(job::Job& job, comm::Together& together) {
  if (job.config.plan.memory_limit) return;
  const std::int64_t needed = job.bundle().persistent_bytes + job.bundle().transient_bytes;
  const std::int64_t share = together.least(
      job::memory_share(job, together.ranks_here(job.ranks()), job::checkpoint_copy_bytes(job)));
  if (needed > share) job::compile_within(job, share);
}

/// All processes have the same job, which comes to its end.
void check(const PreparedRun& run, const TrainArguments& arguments, comm::Together& together) {
  together.each([&] {
    job::check_memory(run.job, together.ranks_here(run.job.ranks()),
                      job::checkpoint_copy_bytes(run.job));
    if (together.is_first()) job::prove_meetings(run.job);
  });
  comm::World* const world = together.world();
  if (world == nullptr) return;
  std::vector<job::CommonFact> common;
  together.each([&] { common = job::common_facts(run.job, *run.source, arguments.variable); });
  together.each([&] { job::require_common(common, run.facts.hosts, *world); });
}

}  // namespace

PreparedRun prepare_run(const TrainArguments& arguments, comm::Together& together,
                        screen::Log& log) {
  const LaunchedRanks ranks = look_at_ranks(together);
  Given given;
  together.each([&] { given = read_given(arguments, ranks); });
  together.set_patience(watchdog_s(given.config));
  job::ChosenGrid grid = settle_grid(arguments, given.config, together);
  PreparedRun run;
  together.each([&] { run = make_run(arguments, std::move(given), ranks.number); });
  run.grid = std::move(grid);
  job::settle_gpus(run.job, together);
  settle_kernels(arguments, run, log, together);
  fit_memory(run.job, together);
  run.facts = {.ranks = static_cast<std::size_t>(run.job.ranks()),
               .are_processes = ranks.number.has_value(),
               .threads_per_rank = run.job.target.threads,
               .hosts = ranks.hosts,
               .mpi = ranks.number ? comm::mpi_library() : "",
               .measured_peak = {}};
  check(run, arguments, together);
  if (!arguments.dry_run) run.peak = job::find_peak(run.job, together, arguments.variable);
  if (run.peak) run.facts.measured_peak = job::to_json(*run.peak);
  together.first([&] { run.predicted = predict_step(run.job, log); });
  run.warnings = together.gather(ranks.warning);
  return run;
}

double watchdog_s(const config::Config& config) {
  // Progress is counted in instructions, of which the longest takes seconds on a slow machine.
  constexpr double automatic_s = 120;
  return config.watchdog_s > 0 ? config.watchdog_s : automatic_s;
}

}  // namespace fourfold::training_run
