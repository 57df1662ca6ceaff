#include "measure/peak.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

#include "base/cores.h"
#include "base/host_facts.h"
#include "measure/ceilings.h"
#include "measure/peak_cache.h"

namespace fourfold::measure {
namespace {

constexpr double measure_s = 0.4;

/// What is known of the peak after it was measured, where that is still worth it.
KnownPeak measured_peak(const PeakCache& cache, const KnownPeak& known, DType dtype, int threads) {
  if (known.is_settled()) return known;
  const double rate = measure_gemm_flops_per_s(dtype, threads, measure_s);
  const KnownPeak peak = cache.add(rate);
  // Where nothing is kept, or another start has written meanwhile.
  return {std::max({rate, known.flops_per_s, peak.flops_per_s}),
          std::max(peak.measurements, known.measurements + 1)};
}

}  // namespace

MeasuredPeak find_peak(DType dtype, int wanted_threads, comm::World* world,
                       const comm::Variable& variable) {
  const int threads = std::min(wanted_threads, num_usable_cores());
  const PeakCache cache(cache_folder(variable), dtype, threads);
  const KnownPeak known = cache.read();
  if (world == nullptr) {
    const KnownPeak peak = measured_peak(cache, known, dtype, threads);
    return {peak.flops_per_s, dtype, threads, threads, peak.measurements};
  }
  double rate = 0;
  std::int64_t used = 0, measurements = 0;
  // All ranks of a host have read before one of them writes.
  world->barrier();
  if (world->local_rank() == 0) {
    const KnownPeak peak = measured_peak(cache, known, dtype, threads);
    rate = peak.flops_per_s;
    measurements = peak.measurements;
    // Where ranks are bound to cores of their own, this one may use its share only.
    const HostFacts host = host_facts();
    const int all = std::min(
        wanted_threads, cores_within(static_cast<std::size_t>(host.cores_online), host.cpu_limit));
    rate *= static_cast<double>(all) / threads;
    used = all;
  } else if (!known.is_settled()) {
    // Waiting in MPI would take the time that is measured.
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * measure_s));
  }
  world->all_reduce(std::span(&rate, 1), Reduction::sum);
  world->all_reduce(std::span(&used, 1), Reduction::sum);
  world->all_reduce(std::span(&measurements, 1), Reduction::max);
  return {rate, dtype, static_cast<int>(used), threads, measurements};
}

void doubt_peak(const MeasuredPeak& peak, const comm::Variable& variable) {
  PeakCache(cache_folder(variable), peak.dtype, peak.measured_threads).doubt();
}

Json to_json(const MeasuredPeak& peak) {
  return Json::object()
      .set("flops_per_s", peak.flops_per_s)
      .set("dtype", to_string(peak.dtype))
      .set("threads", peak.threads);
}

}  // namespace fourfold::measure
