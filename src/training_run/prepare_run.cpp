#include "training_run/prepare_run.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "comm/launcher.h"
#include "comm/mpi.h"
#include "config/changes.h"
#include "config/rules.h"
#include "job/device.h"
#include "job/handshake.h"
#include "job/open_grid.h"
#include "job/prove_equal.h"
#include "job/prove_meetings.h"
#include "job/settle.h"
#include "measure/peak_cache.h"
#include "rundir/run_files.h"
#include "show/ranking_text.h"
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
  config::KnownRanks known;
  std::optional<std::int64_t> number;  // of all
  std::vector<std::string> hosts;      // by rank
  std::string warning;
};

LaunchedRanks look_at_ranks(comm::Together& together) {
  comm::World* const world = together.world();
  if (world == nullptr) return {};
  comm::ThreadAdvice advice = comm::advise_threads(*world);
  std::vector<std::string> hosts = together.gather(comm::own_placement().host);
  return {{advice.threads, ranks_per_host(hosts)},
          static_cast<std::int64_t>(world->size()),
          std::move(hosts),
          std::move(advice.warning)};
}

/// Configuration and data, before the run is settled.
struct Given {
  config::Config config;
  std::unique_ptr<const data::Source> source;
  std::string reading_time;
  std::vector<std::string> notes;
};

Given read_given(const TrainArguments& arguments, const LaunchedRanks& ranks) {
  const Stopwatch reading;
  const config::Config asked = config::with_ranks(job::load_config(arguments.config), ranks.known);
  std::unique_ptr<const data::Source> source = job::open_data(asked);
  const config::Config config = config::with_model(asked, job::model_of(asked, source.get()));
  SettledPrompt prompt = settle_prompt(config, *source);
  return {config::with_prompt(config, prompt.text), std::move(source),
          format_duration(reading.seconds()), std::move(prompt.notes)};
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

/// Where something of the plan is the planner's: the first process chooses, and says it to all.
std::optional<job::ChosenGrid> choose_grid(const TrainArguments& arguments,
                                           const config::Config& config, comm::Together& together) {
  if (!config.leaves_plan_open()) return std::nullopt;
  comm::World* const world = together.world();
  job::ChosenGrid chosen;
  together.first([&] {
    const job::RanksThere there =
        world == nullptr
            ? job::ranks_of_this_host(config)
            : job::RanksThere{static_cast<std::int64_t>(world->size()), together.ranks_here(0)};
    chosen = find_grid(arguments, config, there);
  });
  return chosen;
}

/// All processes settle the same run. What the first one has chosen goes to them as YAML.
config::Settled settle(const Given& given, const std::optional<job::ChosenGrid>& chosen,
                       std::optional<std::int64_t> ranks, comm::Together& together) {
  const job::Known known{.data = given.source.get(), .ranks = ranks};
  if (!chosen) return together.all([&] { return job::settle(given.config, known); });
  std::string grid;
  plan::GivenLayout layout;
  if (together.is_first()) {
    const config::Config own = config::with_choice(given.config, *chosen);
    grid = config::grid_yaml(own);
    layout = own.plan.layout.value_or(plan::GivenLayout());
  }
  grid = together.gather(grid).front();
  layout = {together.gather(layout.name).front(), together.gather(layout.text).front()};
  return together.all([&] {
    const config::Config same = config::with_grid_yaml(given.config, grid);
    return job::settle(layout.text.empty() ? same : config::with_layout(same, layout), known);
  });
}

/// Finds the fastest kernels where the run wants that, and says so before it measures.
job::FoundKernels find_kernels(const TrainArguments& arguments, const job::Preparation& run,
                               int gpu, screen::Log& log) {
  const bool may_go_on = !arguments.overwrite && arguments.resume.how != "never";
  const job::KernelSources sources{
      .kept = may_go_on ? join_path(run.config().dir, rundir::RunFiles::kernel_table) : "",
      .cache_folder = measure::cache_folder(arguments.variable),
      .gpu = gpu};
  log.status("finding the fastest kernels for this run; once a machine and shape, at most 10 s");
  job::FoundKernels found = job::find_kernels(run, sources);
  log.status("");
  return found;
}

/// The first process finds a table for all. Where CPUs, threads or GPUs differ, what is fastest on
/// one is not on another, and all take the built-in table.
job::FoundKernels find_kernels(const TrainArguments& arguments, const job::Preparation& run,
                               int gpu, screen::Log& log, comm::Together& together) {
  if (arguments.dry_run || !job::wants_kernels(run)) return {};
  const std::vector<std::string> machines = together.gather(job::place_of_kernels(run));
  if (std::ranges::any_of(machines, [&](const auto& one) { return one != machines.front(); }))
    return {.table = {},
            .origin = {},
            .warnings = {"ranks compute on different CPUs or GPUs, or with different numbers of "
                         "threads: run.kernel_table: auto is the built-in table for them"}};
  job::FoundKernels found;
  together.first([&] { found = find_kernels(arguments, run, gpu, log); });
  found.table = together.gather(found.table).front();
  return found;
}

/// What is found out on the machines, the same on all processes but for the GPU of each.
struct Found {
  job::FoundHere here;
  job::FoundKernels kernels;  // with its texts on the first process
};
Found look_here(const TrainArguments& arguments, const job::Preparation& run,
                comm::Together& together, screen::Log& log) {
  Found found{run.nothing_found(), {}};
  found.here.gpu = job::place_gpus(run.device(), together);
  found.kernels =
      find_kernels(arguments, run, found.here.gpu ? found.here.gpu->index : 0, log, together);
  if (!found.kernels.table.empty()) found.here.kernel_table = found.kernels.table;
  const measure::GpuPlace gpu =
      found.here.gpu.value_or(measure::GpuPlace{.index = 0, .ranks = run.planned().ranks()});
  const bool is_by_nccl =
      run.device() == job::Device::cuda && gpu.between == measure::Between::nccl;
  if (!run.config().plan.memory_limit)
    found.here.memory_bytes = together.least(measure::memory_share(
        run.device() == job::Device::cuda ? &gpu : nullptr,
        together.ranks_here(run.planned().ranks()), job::checkpoint_copy_bytes(run),
        is_by_nccl ? job::communicators_of(run) : measure::Communicators{}));
  return found;
}

/// Errors: UserError(bad_config) for a word that the variable cannot have.
bool is_compared(const TrainArguments& arguments) {
  const std::string word =
      arguments.variable ? arguments.variable("FOURFOLD_EQUAL").value_or("") : "";
  if (!word.empty() && word != "never")
    throw UserError(ExitCode::bad_config,
                    format("the environment variable FOURFOLD_EQUAL is '{}'; it may be 'never', so "
                           "that a job is not compared with the serial program, or not set",
                           word));
  return word.empty();
}

/// All processes have the same job, which comes to its end and computes what one rank would.
void check(PreparedRun& run, const TrainArguments& arguments, comm::Together& together) {
  together.each([&] {
    job::check_memory(run.job, together.ranks_here(run.job.ranks()),
                      job::checkpoint_copy_bytes(run.job));
    if (!together.is_first()) return;
    job::prove_meetings(run.job);
    if (is_compared(arguments)) run.equality = job::prove_equal(run.job);
  });
  comm::World* const world = together.world();
  if (world == nullptr) return;
  std::vector<job::CommonFact> common;
  together.each([&] { common = job::common_facts(run.job, *run.source, arguments.variable); });
  together.each([&] { job::require_common(common, run.facts.hosts, *world); });
}

/// Work of a run below which half a second of measuring would be felt: 10 s at 100 GFLOP/s.
constexpr double least_measured_flops = 1e12;

/// None where the run is too short for it to be worth measuring, or computes on a GPU: what is
/// measured is the CPU's.
std::optional<measure::MeasuredPeak> find_peak(const job::Job& job, comm::Together& together,
                                               const comm::Variable& variable) {
  if (job.device != job::Device::cpu || job::model_flops_of_run(job) < least_measured_flops)
    return std::nullopt;
  const int threads = static_cast<int>(together.ranks_here(job.ranks())) * job.target.threads;
  return measure::find_peak(job.plan.compute, threads, together.world(), variable);
}

}  // namespace

PreparedRun prepare_run(const TrainArguments& arguments, comm::Together& together, screen::Log& log,
                        const compile::PassOptions& passes) {
  const LaunchedRanks ranks = look_at_ranks(together);
  Given given = together.all([&] { return read_given(arguments, ranks); });
  together.set_patience(watchdog_s(given.config));
  const std::optional<job::ChosenGrid> grid = choose_grid(arguments, given.config, together);
  config::Settled settled = settle(given, grid, ranks.number, together);
  std::optional<job::Preparation> preparation;
  together.each([&] {
    config::refuse_signals(settled.config());
    preparation.emplace(std::move(settled), job::HowToPrepare{.passes = passes});
    job::require_device(preparation->device());
    train::check_trace(preparation->config().train.steps, arguments.trace);
  });
  Found found = look_here(arguments, *preparation, together, log);
  PreparedRun run{.source = std::move(given.source),
                  .job = together.all([&] { return preparation->finish(found.here); }),
                  .grid = grid ? grid->text : std::string(),
                  .ranking = grid && grid->ranking
                                 ? show::ranking_text(*grid->ranking, job::grids_simulated)
                                 : std::string(),
                  .kernels = std::move(found.kernels),
                  .facts = {},
                  .peak = {},
                  .predicted = {},
                  .reading_time = std::move(given.reading_time),
                  .equality = {},
                  .notes = std::move(given.notes),
                  .warnings = {}};
  run.facts = {.ranks = static_cast<std::size_t>(run.job.ranks()),
               .are_processes = ranks.number.has_value(),
               .threads_per_rank = run.job.target.threads,
               .hosts = ranks.hosts,
               .mpi = ranks.number ? comm::mpi_library() : "",
               .measured_peak = {}};
  check(run, arguments, together);
  if (!arguments.dry_run) run.peak = find_peak(run.job, together, arguments.variable);
  if (run.peak) run.facts.measured_peak = measure::to_json(*run.peak);
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
