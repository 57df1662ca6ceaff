#include "cli/startup.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/flops_text.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/text.h"
#include "base/units.h"
#include "job/build_info.h"
#include "job/device.h"
#include "job/peak_cache.h"
#include "measure/ceilings.h"
#include "model/model.h"

namespace fourfold::cli {
namespace {

constexpr double measure_s = 0.4;
/// Work of a run below which half a second of measuring would be felt: 10 s at 100 GFLOP/s.
constexpr double least_flops = 1e12;

bool is_worth_measuring(const job::Job& job) {
  if (job.device != job::Device::cpu) return false;  // what is measured is the CPU's
  if (job.plan.compute != DType::f32 && job.plan.compute != DType::f64) return false;
  const double step = model::model_flops_per_step(
      job.config.model(), job.plan.batching.global_batch, job.plan.batching.length);
  return step * static_cast<double>(job.config.train.steps) >= least_flops;
}

Row data_row(const job::Job& job, const data::Source& source) {
  const plan::Batching& b = job.plan.batching;
  const std::int64_t read = job.config.train.steps * b.global_batch * b.length;
  const std::int64_t all = source.num_train();
  const std::string apart = source.validation_name();
  return {"data",
          format("{} {} to train on, {}{} to validate; {} read {} = {:.3g} epochs",
                 format_grouped(all), source.unit().plural, format_grouped(source.num_validation()),
                 apart.empty() ? "" : " of " + apart, counted(job.config.train.steps, "step"),
                 format_grouped(read), static_cast<double>(read) / static_cast<double>(all))};
}

Row host_row(const job::Job& job, const HostFacts& host, std::size_t ranks_here) {
  const std::int64_t regions = job.device == job::Device::cpu
                                   ? job.bundle().persistent_bytes + job.bundle().transient_bytes
                                   : 0;
  const std::int64_t rank = regions + job::checkpoint_copy_bytes(job);
  return {"host", format("{}: {} of {} cores; {} memory, {} free, {} wanted by {} rank{} here",
                         host.cpu_model.empty() ? host.name : host.cpu_model, host.cores.size(),
                         host.cores_online, format_bytes(host.memory_bytes),
                         format_bytes(host.memory_available_bytes),
                         format_bytes(static_cast<std::int64_t>(ranks_here) * rank), ranks_here,
                         ranks_here == 1 ? "" : "s")};
}

Row libraries_row(const rundir::JobFacts& facts) {
  std::string text;
  for (const auto& [name, version] : job::library_versions())
    if (name == "OpenBLAS" || name == "oneDNN")
      text += format("{}{} {}", text.empty() ? "" : "; ", name, version);
  if (!facts.mpi.empty()) text += "; " + facts.mpi;
  return {"libraries", text};
}

Row ranks_row(const rundir::JobFacts& facts, std::size_t ranks_here) {
  const std::string where = facts.are_processes ? format("processes, {} on this host", ranks_here)
                                                : "threads of this process";
  const std::string shared = shared_cores(facts, ranks_here);
  return {
      "ranks",
      format("{} {}; exposed is the share of a step in which the first one waits for "
             "others{}",
             facts.ranks, where,
             shared.empty() ? "" : format("; {}, so part of it is waiting for a core", shared))};
}

Row peak_row(const rundir::Peak& peak) {
  const std::string measured = peak.measurements == 1
                                   ? "measured now"
                                   : format("the best of {} measurements", peak.measurements);
  return {"peak", format("{} for {} matrix products on {} thread{}, {}; MFU* is the share of it",
                         trim(flops_text(peak.flops_per_s)), to_string(peak.dtype), peak.threads,
                         peak.threads == 1 ? "" : "s", measured)};
}

/// What is known of the peak after it was measured, where that is still worth it.
job::KnownPeak measured_peak(const job::PeakCache& cache, const job::KnownPeak& known, DType dtype,
                             int threads) {
  if (known.is_settled()) return known;
  const double rate = measure::measure_gemm_flops_per_s(dtype, threads, measure_s);
  const job::KnownPeak peak = cache.add(rate);
  // Where nothing is kept, or another start has written meanwhile.
  return {std::max({rate, known.flops_per_s, peak.flops_per_s}),
          std::max(peak.measurements, known.measurements + 1)};
}

}  // namespace

std::optional<rundir::Peak> find_peak(const job::Job& job, const comm::Variable& variable) {
  if (!is_worth_measuring(job)) return std::nullopt;
  const auto wanted = static_cast<int>(job.ranks()) * job.target.threads;
  const int threads = std::min(wanted, job::available_cores());
  const job::PeakCache cache(job::cache_folder(variable), job.plan.compute, threads);
  const job::KnownPeak peak = measured_peak(cache, cache.read(), job.plan.compute, threads);
  return rundir::Peak{peak.flops_per_s, job.plan.compute, threads, threads, peak.measurements};
}

std::optional<rundir::Peak> find_peak(const job::Job& job, comm::World& world,
                                      const comm::Variable& variable) {
  if (!is_worth_measuring(job)) return std::nullopt;
  const int wanted = static_cast<int>(world.local_size()) * job.target.threads;
  const int threads = std::min(wanted, job::available_cores());
  const job::PeakCache cache(job::cache_folder(variable), job.plan.compute, threads);
  const job::KnownPeak known = cache.read();
  double rate = 0;
  std::int64_t used = 0, measurements = 0;
  // All ranks of a host have read before one of them writes.
  world.barrier();
  if (world.local_rank() == 0) {
    const job::KnownPeak peak = measured_peak(cache, known, job.plan.compute, threads);
    rate = peak.flops_per_s;
    measurements = peak.measurements;
    // Where ranks are bound to cores of their own, this one may use its share only.
    const int all = std::min(wanted, static_cast<int>(host_facts().cores_online));
    rate *= static_cast<double>(all) / threads;
    used = all;
  } else if (!known.is_settled()) {
    // Waiting in MPI would take the time that is measured.
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * measure_s));
  }
  world.all_reduce(std::span(&rate, 1), Reduction::sum);
  world.all_reduce(std::span(&used, 1), Reduction::sum);
  world.all_reduce(std::span(&measurements, 1), Reduction::max);
  return rundir::Peak{rate, job.plan.compute, static_cast<int>(used), threads, measurements};
}

void doubt_peak(const rundir::Peak& peak, const comm::Variable& variable) {
  job::PeakCache(job::cache_folder(variable), peak.dtype, peak.measured_threads).doubt();
}

std::string shared_cores(const rundir::JobFacts& facts, std::size_t ranks_here) {
  const int cores = facts.are_processes ? host_facts().cores_online : job::available_cores();
  if (ranks_here <= static_cast<std::size_t>(cores)) return {};
  return format("{} ranks share {} core{}", ranks_here, cores, cores == 1 ? "" : "s");
}

Rows startup_rows(const job::Job& job, const data::Source& source, const rundir::JobFacts& facts,
                  std::size_t ranks_here) {
  Rows rows = job::summary_rows(job);
  rows.push_back(data_row(job, source));
  if (facts.ranks > 1) rows.push_back(ranks_row(facts, ranks_here));
  rows.push_back(job::device_row(job));
  rows.push_back(host_row(job, host_facts(), ranks_here));
  rows.push_back(libraries_row(facts));
  if (facts.peak) rows.push_back(peak_row(*facts.peak));
  return rows;
}

}  // namespace fourfold::cli
