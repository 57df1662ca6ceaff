// The rate that the utilisation of a run is measured against, where nothing but a measurement tells
// it: a CPU's. What earlier starts have measured: peak_cache.h.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/json.h"
#include "comm/launcher.h"
#include "comm/world.h"

namespace fourfold::measure {

/// The best rate of matrix products that was measured on the machines of a run.
struct MeasuredPeak {
  double flops_per_s = 0;
  DType dtype = DType::f32;
  int threads = 1;                // of all ranks
  int measured_threads = 1;       // of one host
  std::int64_t measurements = 1;  // that it is the best of, on this host
};

/// Best rate of the library's matrix product in such numbers on the threads that all ranks of this
/// host want together, as far as it has cores: what the user's cache knows of this machine or,
/// until it knows enough, the best of that and about half a second of measuring now. All processes
/// call together: one of each host measures, and the rates of the hosts are added. `world` is null
/// for a process that is alone.
MeasuredPeak find_peak(DType dtype, int wanted_threads, comm::World* world,
                       const comm::Variable& variable);
/// For a run that computed faster than its peak: the next starts measure it again.
void doubt_peak(const MeasuredPeak& peak, const comm::Variable& variable);

/// As the record of a run has it.
Json to_json(const MeasuredPeak& peak);

}  // namespace fourfold::measure
