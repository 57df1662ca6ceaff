#include "cli/bench_machine.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/units.h"
#include "cli/bench_job.h"
#include "comm/launch.h"
#include "comm/threads.h"
#include "job/job.h"
#include "job/kernel_table.h"
#include "machine/cluster_file.h"
#include "measure/machine_bench.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// Nothing that is measured takes as long.
constexpr double most_s = 300;

/// Whose kernels are timed: the step of the configuration, and steps with a half and a quarter of
/// its samples, because those of other grids are smaller.
void add_calls(const BenchArguments& arguments, measure::MachineBenchOptions& options) {
  if (arguments.config.files.empty()) return;
  const job::Job whole = bench_job(arguments.config, arguments, "cpu");
  options.step_bytes = whole.bundle().persistent_bytes + whole.bundle().transient_bytes;
  std::vector<job::Job> smaller;
  const plan::PlanSpec& spec = whole.config.plan;
  for (const std::int64_t divisor : {2, 4}) {
    if (spec.micro_batch_size % divisor != 0 || spec.global_batch_size % divisor != 0) break;
    config::Config config = whole.config;
    config.plan.micro_batch_size /= divisor;
    config.micro_batch_size = config.plan.micro_batch_size;
    config.plan.global_batch_size /= divisor;
    smaller.push_back(job::make_job(std::move(config)));
  }
  std::vector<const program::Program*> steps = {&whole.bundle().at("train")};
  for (const job::Job& job : smaller) steps.push_back(&job.bundle().at("train"));
  options.calls = measure::calls_of(steps, options.threads, "kernels");
}

/// How the ranks of one host share its cores and memory.
measure::MachineBenchOptions options_of(const BenchArguments& arguments, std::int64_t host_ranks,
                                        std::int64_t cores) {
  measure::MachineBenchOptions options;
  options.ranks_per_device = std::max<std::int64_t>(1, host_ranks / cores);
  if (host_ranks > cores && host_ranks % cores != 0)
    throw UserError(ExitCode::bad_config,
                    format("{} ranks do not share {} cores evenly; take {} or {} ranks", host_ranks,
                           cores, cores, host_ranks / cores * cores + cores));
  const std::int64_t devices = host_ranks / options.ranks_per_device;
  options.threads = arguments.threads > 0
                        ? arguments.threads
                        : static_cast<int>(std::max<std::int64_t>(1, cores / host_ranks));
  options.seconds = arguments.is_quick ? 0.001 : arguments.seconds;
  options.is_quick = arguments.is_quick;
  add_calls(arguments, options);
  options.device_name = format("{} of {}", counted(options.threads, "core"), job::kernel_cpu());
  const HostFacts host = host_facts();
  options.memory_bytes =
      std::min(host.memory_bytes, host.memory_limit_bytes.value_or(host.memory_bytes)) / devices;
  return options;
}

/// What one rank does.
void measure_rank(const BenchArguments& arguments, comm::World& world, std::int64_t cores) {
  const bool is_first = world.rank().index() == 0;
  const auto host_ranks = static_cast<std::int64_t>(world.local_size());
  const auto size = static_cast<std::int64_t>(world.size());
  const measure::MachineBenchOptions options = options_of(arguments, host_ranks, cores);
  const auto tell = [&](const std::string& line) {
    if (!is_first) return;
    screen::print("%s\n", line.c_str());
    std::fflush(stdout);
  };
  tell(format("{}; {} on {}, of {} each\n", job::kernel_cpu(), counted(size, "rank"),
              counted(size / host_ranks, "host"), counted(options.threads, "thread")));
  const measure::MachineTimes times = measure::measure_machine(world, options, tell);
  if (!is_first || arguments.output.empty()) return;
  machine::Cluster cluster = measure::cluster_of(times, options, size, host_ranks);
  write_file_atomic(
      arguments.output,
      machine::to_yaml(cluster,
                       "Measured by `fourfold bench machine`: three digits, all ranks at "
                       "the same time."));
  tell(format("\nmachine: {} (look at it with fourfold machines {})", arguments.output,
              arguments.output));
}

/// Before the minute that measuring takes.
void check_folder(const std::string& output) {
  if (output.empty()) return;
  const auto folder = std::filesystem::path(absolute_path(output)).parent_path();
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw UserError(ExitCode::storage, format("{}: the folder {} is not there; make it first",
                                              output, folder.string()));
}

}  // namespace

void bench_machine(const BenchArguments& arguments) {
  check_folder(arguments.output);
  const int cores = job::available_cores();
  if (arguments.is_job) {
    comm::LaunchOptions launch;
    launch.watchdog_s = most_s;
    comm::ProcessJob processes(arguments.launcher, launch);
    // A launcher may pin each rank to cores of its own.
    const std::int64_t host_cores =
        std::max<std::int64_t>(host_facts().cores_online, processes.world().local_size());
    processes.run([&] { measure_rank(arguments, processes.world(), host_cores); });
    return;
  }
  comm::ThreadJob job(arguments.ranks > 0 ? static_cast<std::size_t>(arguments.ranks)
                                          : static_cast<std::size_t>(cores));
  job.run([&](comm::World& world) { measure_rank(arguments, world, cores); });
}

}  // namespace fourfold::cli
