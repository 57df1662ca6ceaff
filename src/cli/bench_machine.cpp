#include "cli/bench.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/cores.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/units.h"
#include "comm/launch.h"
#include "comm/threads.h"
#include "job/job.h"
#include "machine/cluster_file.h"
#include "measure/kernel_table.h"
#include "measure/machine_bench.h"
#include "model/model.h"
#include "screen/print.h"

namespace fourfold::cli {
namespace {

/// Nothing that is measured takes as long.
constexpr double most_s = 300;

/// What all ranks of the command measure.
struct Subject {
  const BenchArguments& arguments;
  std::int64_t cores = 1;            // of a host
  std::vector<job::Job> steps = {};  // jobs of one rank, whose kernels are timed in their steps
};

/// Each rank has a step of its own in memory.
void check_memory(const std::vector<job::Job>& steps, std::int64_t host_ranks) {
  std::int64_t rank_bytes = 0;
  for (const job::Job& job : steps)
    rank_bytes = std::max(rank_bytes, job.bundle().persistent_bytes + job.bundle().transient_bytes);
  const std::int64_t available = available_memory_bytes();
  if (rank_bytes * host_ranks <= available) return;
  throw UserError(
      ExitCode::does_not_fit,
      format("the step of the configuration takes {} on each of {}, and this host has {}; take "
             "fewer layers, which have the same kernels, or samples: --set model.num_layers=2 "
             "--set train.micro_batch_size=1",
             format_bytes(rank_bytes), counted(host_ranks, "rank"), format_bytes(available)));
}

int threads_of(const BenchArguments& arguments, std::int64_t host_ranks, std::int64_t cores) {
  if (arguments.threads > 0) return arguments.threads;
  return static_cast<int>(std::max<std::int64_t>(1, cores / host_ranks));
}

/// How the ranks of one host share its cores and memory.
measure::MachineBenchOptions options_of(const Subject& subject, std::int64_t host_ranks) {
  const BenchArguments& arguments = subject.arguments;
  const std::int64_t cores = subject.cores;
  measure::MachineBenchOptions options;
  options.ranks_per_device = std::max<std::int64_t>(1, host_ranks / cores);
  if (host_ranks > cores && host_ranks % cores != 0)
    throw UserError(ExitCode::bad_config,
                    format("{} ranks do not share {} cores evenly; take {} or {} ranks", host_ranks,
                           cores, cores, host_ranks / cores * cores + cores));
  const std::int64_t devices = host_ranks / options.ranks_per_device;
  options.threads = threads_of(arguments, host_ranks, cores);
  options.seconds = arguments.is_quick ? 0.001 : arguments.seconds;
  options.is_quick = arguments.is_quick;
  for (const job::Job& job : subject.steps)
    options.steps.push_back({&job.bundle(), model::data_facts(job.settled.model()).num_labels});
  options.device_name = format("{} of {}", counted(options.threads, "core"), measure::kernel_cpu());
  const HostFacts host = host_facts();
  options.memory_bytes =
      std::min(host.memory_bytes, host.memory_limit_bytes.value_or(host.memory_bytes)) / devices;
  return options;
}

/// What one rank does.
void measure_rank(const Subject& subject, comm::World& world) {
  const BenchArguments& arguments = subject.arguments;
  const bool is_first = world.rank().index() == 0;
  const auto host_ranks = static_cast<std::int64_t>(world.local_size());
  const auto size = static_cast<std::int64_t>(world.size());
  const measure::MachineBenchOptions options = options_of(subject, host_ranks);
  const auto tell = [&](const std::string& line) {
    if (!is_first) return;
    screen::print("%s\n", line.c_str());
    std::fflush(stdout);
  };
  tell(format("{}; {} on {}, of {} each\n", measure::kernel_cpu(), counted(size, "rank"),
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
  const int cores = num_usable_cores();
  if (arguments.is_job) {
    comm::LaunchOptions launch;
    launch.watchdog_s = most_s;
    comm::ProcessJob processes(arguments.launcher, launch);
    // A launcher may pin each rank to cores of its own.
    const std::int64_t host_cores =
        std::max<std::int64_t>(host_facts().cores_online, processes.world()->local_size());
    processes.run([&] {
      const auto host_ranks = static_cast<std::int64_t>(processes.world()->local_size());
      Subject subject{arguments, host_cores};
      subject.steps = bench_steps(arguments.config, arguments, host_ranks,
                                  threads_of(arguments, host_ranks, host_cores));
      check_memory(subject.steps, host_ranks);
      measure_rank(subject, *processes.world());
    });
    return;
  }
  const std::int64_t ranks = arguments.ranks > 0 ? arguments.ranks : cores;
  Subject subject{arguments, cores};
  subject.steps =
      bench_steps(arguments.config, arguments, ranks, threads_of(arguments, ranks, cores));
  check_memory(subject.steps, ranks);
  // As `train` runs its ranks.
  comm::ThreadJob job(static_cast<std::size_t>(ranks));
  job.run([&](comm::World& world) { measure_rank(subject, world); },
          comm::ThreadJob::Cores::own_share);
}

}  // namespace fourfold::cli
