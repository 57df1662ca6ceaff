#include "job/peak.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>

#include "base/cores.h"
#include "base/host_facts.h"
#include "job/device.h"
#include "job/peak_cache.h"
#include "measure/ceilings.h"

namespace fourfold::job {
namespace {

constexpr double measure_s = 0.4;
/// Work of a run below which half a second of measuring would be felt: 10 s at 100 GFLOP/s.
constexpr double least_flops = 1e12;

bool is_worth_measuring(const Job& job) {
  if (job.device != Device::cpu) return false;  // what is measured is the CPU's
  return model_flops_of_run(job) >= least_flops;
}

/// What is known of the peak after it was measured, where that is still worth it.
KnownPeak measured_peak(const PeakCache& cache, const KnownPeak& known, DType dtype, int threads) {
  if (known.is_settled()) return known;
  const double rate = measure::measure_gemm_flops_per_s(dtype, threads, measure_s);
  const KnownPeak peak = cache.add(rate);
  // Where nothing is kept, or another start has written meanwhile.
  return {std::max({rate, known.flops_per_s, peak.flops_per_s}),
          std::max(peak.measurements, known.measurements + 1)};
}

}  // namespace

std::optional<MeasuredPeak> find_peak(const Job& job, comm::Together& together,
                                      const comm::Variable& variable) {
  if (!is_worth_measuring(job)) return std::nullopt;
  const int wanted = static_cast<int>(together.ranks_here(job.ranks())) * job.target.threads;
  const int threads = std::min(wanted, num_usable_cores());
  const PeakCache cache(cache_folder(variable), job.plan.compute, threads);
  const KnownPeak known = cache.read();
  comm::World* const world = together.world();
  if (world == nullptr) {
    const KnownPeak peak = measured_peak(cache, known, job.plan.compute, threads);
    return MeasuredPeak{peak.flops_per_s, job.plan.compute, threads, threads, peak.measurements};
  }
  double rate = 0;
  std::int64_t used = 0, measurements = 0;
  // All ranks of a host have read before one of them writes.
  world->barrier();
  if (world->local_rank() == 0) {
    const KnownPeak peak = measured_peak(cache, known, job.plan.compute, threads);
    rate = peak.flops_per_s;
    measurements = peak.measurements;
    // Where ranks are bound to cores of their own, this one may use its share only.
    const HostFacts host = host_facts();
    const int all =
        std::min(wanted, cores_within(static_cast<std::size_t>(host.cores_online), host.cpu_limit));
    rate *= static_cast<double>(all) / threads;
    used = all;
  } else if (!known.is_settled()) {
    // Waiting in MPI would take the time that is measured.
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * measure_s));
  }
  world->all_reduce(std::span(&rate, 1), Reduction::sum);
  world->all_reduce(std::span(&used, 1), Reduction::sum);
  world->all_reduce(std::span(&measurements, 1), Reduction::max);
  return MeasuredPeak{rate, job.plan.compute, static_cast<int>(used), threads, measurements};
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

}  // namespace fourfold::job
