#include "cli/bench_step.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cores.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/styled_text.h"
#include "base/units.h"
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
#include "training_run/train_rank.h"

namespace fourfold::cli {
namespace {

/// AxoNN, section VI: the mean of the last five of ten batches.
constexpr std::int64_t batches = 10, counted_batches = 5;
/// Nothing that is measured takes as long.
constexpr double longest_step_s = 3600;

/// Keeps what is told of the steps.
class StepTimes : public train::Observer {
 public:
  void step(const train::StepMetrics& metrics) override { steps.push_back(metrics); }
  void end(const train::TrainResult&) override {}

  std::vector<train::StepMetrics> steps;
};

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
  const config::Config config = config::for_steps(loaded, batches + 1, arguments.threads);
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

struct Figures {
  std::vector<double> step_s;
  double mean_s = 0, median_s = 0, least_s = 0, most_s = 0;  // of those that count
  double items_per_s = 0, flops_per_s = 0;
  std::optional<double> exposed_s, peak_flops_per_s, instruction_s;
  std::size_t instructions = 0;
  std::int64_t peak_resident_bytes = 0;
};

Figures figures_of(const std::vector<train::StepMetrics>& steps, const train::RunFacts& facts) {
  Figures figures;
  for (const train::StepMetrics& step : steps) figures.step_s.push_back(step.time_s);
  std::vector<double> last(figures.step_s.end() - counted_batches, figures.step_s.end());
  figures.mean_s = std::accumulate(last.begin(), last.end(), 0.) / counted_batches;
  std::ranges::sort(last);
  figures.median_s = last[counted_batches / 2];
  figures.least_s = last.front();
  figures.most_s = last.back();
  figures.items_per_s = static_cast<double>(facts.items_per_step) / figures.mean_s;
  figures.flops_per_s = facts.model_flops_per_step / figures.mean_s;
  if (steps.back().exposed_communication_s) {
    double sum = 0;
    for (auto step = steps.end() - counted_batches; step != steps.end(); ++step)
      sum += step->exposed_communication_s.value_or(0);
    figures.exposed_s = sum / counted_batches;
  }
  figures.peak_resident_bytes = steps.back().peak_resident_bytes;
  return figures;
}

std::string milliseconds(double seconds) {
  return format("{:.4g}", 1e3 * seconds);
}

Rows rows_of(const Figures& figures, const StepJob& step) {
  std::string all;
  for (const double seconds : figures.step_s) all += " " + milliseconds(seconds);
  Rows rows = show::summary_rows(step.job);
  std::erase_if(rows, [](const Row& row) { return row.label == "run"; });  // there is none
  rows.push_back({"batches", format("{} in turn, ms:{}", batches, all)});
  rows.push_back(
      {"time", format("{} ms a step, the mean of the last {} (median {}, {} to {})",
                      milliseconds(figures.mean_s), counted_batches, milliseconds(figures.median_s),
                      milliseconds(figures.least_s), milliseconds(figures.most_s))});
  if (figures.exposed_s)
    rows.push_back({"exposed", format("{} ms of it the first rank waits for others, {:.1f}%",
                                      milliseconds(*figures.exposed_s),
                                      100 * *figures.exposed_s / figures.mean_s)});
  std::string rate =
      format("{} {}/s, {}", format_grouped(static_cast<std::int64_t>(figures.items_per_s)),
             step.source->unit().plural, flops_text(figures.flops_per_s));
  if (figures.peak_flops_per_s)
    rate += format(", {:.1f}% of {} that products reach here",
                   100 * figures.flops_per_s / *figures.peak_flops_per_s,
                   flops_text(*figures.peak_flops_per_s));
  rows.push_back({"rate", rate});
  if (figures.instruction_s)
    rows.push_back(
        {"fixed",
         format("an instruction without work takes {:.2f} us: the {} of a rank {} ms",
                1e6 * *figures.instruction_s, figures.instructions,
                milliseconds(*figures.instruction_s * static_cast<double>(figures.instructions)))});
  rows.push_back({"resident", format_bytes(figures.peak_resident_bytes) + " at most"});
  return rows;
}

Json json_of(const Figures& figures, const StepJob& step) {
  Json all = Json::array();
  for (const double seconds : figures.step_s) all.push(seconds);
  Json json = Json::object()
                  .set("ranks", step.job.ranks())
                  .set("threads", step.job.target.threads)
                  .set("batches_s", all)
                  .set("step_s", figures.mean_s)
                  .set("median_s", figures.median_s)
                  .set("least_s", figures.least_s)
                  .set("most_s", figures.most_s)
                  .set("items_per_s", figures.items_per_s)
                  .set("model_flops_per_s", figures.flops_per_s)
                  .set("instructions", static_cast<std::int64_t>(figures.instructions))
                  .set("peak_resident_bytes", figures.peak_resident_bytes);
  if (figures.exposed_s) json.set("exposed_s", *figures.exposed_s);
  if (figures.peak_flops_per_s) json.set("peak_flops_per_s", *figures.peak_flops_per_s);
  if (figures.instruction_s) json.set("instruction_s", *figures.instruction_s);
  return json;
}

/// What one rank does.
void measure_rank(const BenchArguments& arguments, const StepJob& step, comm::World& world,
                  measure::CudaForThreads* gpu) {
  const job::Job& job = step.job;
  const bool is_first = world.rank().index() == 0, is_alone = world.size() == 1;
  const train::RunFacts facts = training_run::facts_of(job, step.source->unit(), std::nullopt);
  StepTimes times;
  {
    const program::Bundle bundle =
        job::bundle_of(job, static_cast<std::int64_t>(world.rank().index()));
    const auto backend = job::make_backend(job, is_alone ? nullptr : &world,
                                           format("file {}", step.source->name()), gpu);
    run::Executor executor(bundle, *backend);
    std::vector<train::Observer*> observers;
    if (is_first) observers.push_back(&times);
    train::train(job.settled.train(), facts, executor, *step.source, observers,
                 is_alone ? nullptr : &world, {.stop_at = batches});
  }
  const bool is_cpu = job.device == job::Device::cpu;
  // The executor's own time, which other backends do not spend on the host.
  std::optional<double> instruction_s;
  constexpr double instruction_bench_s = 0.1, product_bench_s = 0.2;
  if (is_cpu) instruction_s = measure::measure_instruction(world, true, instruction_bench_s).best_s;
  if (!is_first) return;
  Figures figures = figures_of(times.steps, facts);
  figures.instruction_s = instruction_s;
  figures.instructions = job.bundle().at(op::ProgramKind::train).instructions.size();
  if (is_cpu && world.local_size() == world.size()) {
    keep_to_cores(step.cores);  // the other ranks have ended
    figures.peak_flops_per_s = measure::measure_gemm_flops_per_s(
        job.plan.compute,
        std::min(static_cast<int>(world.size()) * job.target.threads, num_usable_cores()),
        product_bench_s);
  }
  screen::print_text(arguments.format == "json"
                         ? json_of(figures, step).dump() + "\n"
                         : without_styles(screen::to_text(rows_of(figures, step), 100)));
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
