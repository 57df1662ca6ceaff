#include "cli/bench.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "base/format.h"
#include "base/styled_text.h"
#include "cli/prepare_to_look.h"
#include "comm/launch.h"
#include "comm/threads.h"
#include "config/rules.h"
#include "config/uses.h"
#include "job/config_source.h"
#include "job/find_kernels.h"
#include "job/job.h"
#include "job/settle.h"
#include "measure/ceilings.h"
#include "measure/instruction_time.h"
#include "measure/peak_cache.h"
#include "run/executor.h"
#include "screen/print.h"
#include "screen/rows.h"
#include "show/summary.h"
#include "train/session.h"
#include "train/step_figures.h"
#include "training_run/train_rank.h"

namespace fourfold::cli {
namespace {

/// Nothing that is measured takes as long.
constexpr double longest_step_s = 3600;

struct StepJob {
  std::unique_ptr<const data::Source> source;
  job::Job job;
  std::vector<int> cores;  // of this process
};

/// The job, of which nothing but steps is left.
/// `find`: what is found out on the machine, once the run is planned.
StepJob make_step_job(
    const BenchArguments& arguments, std::optional<std::int64_t> ranks,
    const std::function<job::FoundHere(const job::Preparation& preparation)>& find) {
  const config::Config loaded = job::load_config(arguments.config);
  refuse_open_grid(loaded);
  // After the last one there would be an evaluation.
  const config::Config config =
      config::for_steps(loaded, train::bench_batches + 1, arguments.threads);
  config::refuse_signals(config);
  std::unique_ptr<const data::Source> source = job::open_data(config);
  job::Preparation preparation(job::settle(config, {.data = source.get(), .ranks = ranks}));
  job::require_device(preparation.device());
  return {std::move(source), preparation.finish(find(preparation)), usable_cores()};
}

/// The kernels that a long run of the configuration would have.
job::FoundHere find_kernels(const BenchArguments& arguments, const job::Preparation& preparation) {
  job::FoundHere found = preparation.nothing_found();
  if (!job::may_find_kernels(preparation)) return found;
  const std::string table =
      job::find_kernels(preparation,
                        {.kept = "", .cache_folder = measure::cache_folder(arguments.variable)})
          .table;
  if (!table.empty()) found.kernel_table = table;
  return found;
}

/// What one rank does.
void measure_rank(const BenchArguments& arguments, const StepJob& step, comm::World& world,
                  measure::CudaForThreads* gpu) {
  const job::Job& job = step.job;
  const bool is_first = world.rank().index() == 0, is_alone = world.size() == 1;
  const train::RunFacts facts = training_run::facts_of(job, step.source->unit(), std::nullopt);
  train::StepTimes times;
  {
    const program::Bundle bundle =
        job::bundle_of(job, static_cast<std::int64_t>(world.rank().index()));
    const auto backend = job::make_backend(job, is_alone ? nullptr : &world,
                                           format("file {}", step.source->name()), gpu);
    run::Executor executor(bundle, *backend);
    std::vector<train::Observer*> observers;
    if (is_first) observers.push_back(&times);
    train::train(job.settled.train(), facts, executor, *step.source, observers,
                 is_alone ? nullptr : &world, {.stop_at = train::bench_batches});
  }
  const bool is_cpu = job.device == job::Device::cpu;
  // The executor's own time, which other backends do not spend on the host.
  std::optional<double> instruction_s;
  constexpr double instruction_bench_s = 0.1, product_bench_s = 0.2;
  if (is_cpu) instruction_s = measure::measure_instruction(world, true, instruction_bench_s).best_s;
  if (!is_first) return;
  train::StepFigures figures = train::figures_of(times.steps, facts);
  figures.ranks = job.ranks();
  figures.threads = job.target.threads;
  figures.instruction_s = instruction_s;
  figures.instructions = job.bundle().at(op::ProgramKind::train).instructions.size();
  if (is_cpu && world.local_size() == world.size()) {
    keep_to_cores(step.cores);  // the other ranks have ended
    figures.peak_flops_per_s = measure::measure_gemm_flops_per_s(
        job.plan.compute,
        std::min(static_cast<int>(world.size()) * job.target.threads, num_usable_cores()),
        product_bench_s);
  }
  if (arguments.format == "json") return screen::print_text(train::to_json(figures).dump() + "\n");
  Rows rows = show::summary_rows(job);
  std::erase_if(rows, [](const Row& row) { return row.label == "run"; });  // there is none
  const Rows measured = train::to_rows(figures);
  rows.insert(rows.end(), measured.begin(), measured.end());
  screen::print_text(without_styles(screen::to_text(rows, 100)));
}

}  // namespace

void bench_step(const BenchArguments& arguments) {
  if (arguments.is_job) {
    comm::LaunchOptions launch;
    launch.watchdog_s = longest_step_s;
    comm::ProcessJob processes(arguments.launcher, launch);
    comm::World& world = *processes.world();
    processes.run([&] {
      const StepJob step = make_step_job(
          arguments, static_cast<std::int64_t>(world.size()), [&](const auto& preparation) {
            job::FoundHere found = preparation.nothing_found();
            found.gpu = job::place_gpus(preparation.device(), processes);
            return found;
          });
      measure_rank(arguments, step, world, nullptr);
    });
    return;
  }
  const StepJob step = make_step_job(arguments, std::nullopt, [&](const auto& preparation) {
    return find_kernels(arguments, preparation);
  });
  const std::unique_ptr<measure::CudaForThreads> gpu = job::open_for_threads(step.job);
  comm::ThreadJob job(static_cast<std::size_t>(step.job.ranks()));
  const bool binds = step.job.settled.config().bind_to_cores && step.job.device == job::Device::cpu;
  job.run([&](comm::World& world) { measure_rank(arguments, step, world, gpu.get()); },
          binds ? comm::ThreadJob::Cores::own_share : comm::ThreadJob::Cores::any);
}

}  // namespace fourfold::cli
