// `fourfold bench`: what it is told, and what it measures in files of their own. The command
// itself: commands/bench.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/launcher.h"
#include "job/config_source.h"
#include "job/job.h"
#include "measure/device_step.h"

namespace fourfold::cli {

struct ReshardArguments {
  std::vector<std::int64_t> cases, shape;  // no case: all, or the pair of meshes
  std::string from, from_mesh, to, to_mesh, bytes = "4MiB", ordering = "best", chunks = "auto";
  std::vector<std::string> strategies;
  std::string rate = "10 Gbit/s", latency = "50 us", inside = "4 GB/s";
  /// A message within a host waits for a thread to wake, as one between rank threads does.
  std::string inside_latency = "5 us";
  bool is_free = false, is_plan = false;
  bool is_given = false;  // the line has one of these
};

struct CollectivesArguments {
  std::string grid, machine;
  std::vector<std::string> kinds, sizes;
  bool is_given = false;  // the line has one of these
};

struct BenchArguments {
  std::string what, dtype, device = "cpu", output, format = "text";
  job::ConfigSource config;  // no file: the steps of a small and of a large GPT
  int threads = 0;
  double seconds = 0.1;
  std::int64_t ranks = 0;
  bool is_job = false, is_quick = false;
  ReshardArguments reshard;
  CollectivesArguments collectives;
  comm::LauncherFacts launcher;
  comm::Variable variable;
};

/// Measures this machine, or the hosts of a job, as a cluster, with ranks as threads of this
/// process, or the processes of a launcher; the first rank prints what it measures and writes the
/// file. Errors: UserError(bad_config) where the ranks do not share the cores evenly.
void bench_machine(const BenchArguments& arguments);

/// Trains ten batches and prints the mean time of the last five, as the papers do, beside median
/// and spread. Ranks are threads of this process, or with --job the processes of a launcher.
/// Nothing is written. Errors: those of training.
void bench_step(const BenchArguments& arguments);

/// Carries out the plans of the paper's cases, or of a pair of meshes, by each strategy: on ranks
/// that are threads, a row of a mesh for a host, or with --job on processes, a row on each host in
/// turn. Prints the plan's makespan and lower bound beside the measured time, bytes between hosts,
/// and what every element says. Errors: UserError(bad_config); internal where an element is wrong.
void bench_reshard(const BenchArguments& arguments);

/// Measures how fast ranks exchange tensors, by kind, group and size, beside the links of a
/// described machine: over threads; with --job over processes, between host memories or GPUs.
/// Errors: UserError(bad_config) for words that make no sense, UserError(does_not_fit) for more
/// ranks than the machine has, UserError(environment) where GPUs cannot be used.
void bench_collectives(const BenchArguments& arguments);

/// `bench gemm|attention|kernels|copy` on the first GPU. Two folders have it, cuda/ and no_cuda/,
/// and CMake takes one. Throws UserError(environment) where none can be used.
void bench_cuda(const BenchArguments& arguments);

/// `bench kernels` on a GPU whose kernels these are: the step of arguments.config, or of layers
/// like those of GPT-2 124M and 1.5B. Writes the table where arguments.output says.
void bench_device_step(const BenchArguments& arguments, const measure::DeviceKernels& kernels);

/// Shows a line at once.
void print_line(const std::string& line);

/// Prepares the job of a command on a device, "cpu" or "cuda", with the types and threads that the
/// command line asks for and the built-in kernel table; it is compiled and never run. Errors: what
/// job::load_config and job::prepare throw; UserError(bad_config) where the grid is open.
job::Job bench_job(const job::ConfigSource& source, const BenchArguments& arguments,
                   const std::string& device);

/// Steps of one rank on a CPU: with all samples of the configuration, and with half as many again
/// and again, down to half of what each rank has where all share them out, for the kernels of other
/// grids: in some of them a rank has all of what others share. With two micro-batches where there
/// are more. Without a configuration there are none. Errors: as bench_job.
std::vector<job::Job> bench_steps(const job::ConfigSource& source, const BenchArguments& arguments,
                                  std::int64_t ranks, int threads);

}  // namespace fourfold::cli
