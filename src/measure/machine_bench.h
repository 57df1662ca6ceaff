// Measures the machine that a job runs on and makes a cluster of it: what `bench machine` writes.
// CPUs; ranks are threads of one process or processes. Not a benchmark of kernels against each
// other (kernel_bench.h).
//
// A device is a rank's share of the cores. All of them compute at the same time, because memory and
// clock rates of cores that work alone are higher. What computes has the time of undisturbed
// rounds, what waits for other threads the usual one; how far apart both are says how busy the
// machine was.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "comm/world.h"
#include "machine/cluster.h"
#include "measure/exchanges.h"
#include "measure/step_times.h"
#include "measure/time_together.h"

namespace fourfold::measure {

struct MachineBenchOptions {
  int threads = 1;                // of a device's kernels
  double seconds = 0.1;           // for each figure
  bool is_quick = false;          // sizes that take no time: to try the command
  std::string device_name;        // "1 core of AMD EPYC 7763 64-Core Processor"
  std::int64_t memory_bytes = 0;  // of a device
  /// So many ranks, one after another, share a device; the first of them computes for all.
  std::int64_t ranks_per_device = 1;
  /// Steps of a rank that is alone, whose kernel calls are timed too (step_times.h).
  std::vector<TimedStep> steps = {};
};

struct ProductTime {
  DType dtype = DType::f32;
  std::int64_t size = 0;  // of square matrices
  double flops = 0;
  Timing timing;
};

/// What was measured, of one device where nothing else is said.
struct MachineTimes {
  std::vector<ProductTime> products;
  double triad_bytes_per_s = 0;  // the slowest device's best
  double triad_spread = 0;       // between devices
  double rows_bytes_per_s = 0;   // of an element-wise row on operands that no cache holds
  double rows_spread = 0;
  std::vector<CallTime> calls;
  Timing instruction, handoff;  // that waits for no other stream, and that waits for one
  double slowdown = 1;          // of a product while the ranks reduce a tensor
  std::vector<ExchangeTimes> exchanges;
};

/// Lines for people, as soon as there is something to say. Called on every rank.
using Tell = std::function<void(const std::string& line)>;

/// All ranks call together and get the same figures. Errors: UserError(bad_config) where ranks are
/// not in blocks of the same size on the hosts.
MachineTimes measure_machine(comm::World& world, const MachineBenchOptions& options,
                             const Tell& tell);

/// Figures of three digits. `world_size` ranks, so many of them on a host.
machine::Cluster cluster_of(const MachineTimes& times, const MachineBenchOptions& options,
                            std::int64_t world_size, std::int64_t host_ranks);

}  // namespace fourfold::measure
