#include "training_run/startup.h"

#include <algorithm>

#include "base/cores.h"
#include "base/format.h"
#include "base/host_facts.h"
#include "base/text.h"
#include "base/units.h"
#include "job/device.h"
#include "measure/build_info.h"
#include "show/device_row.h"

namespace fourfold::training_run {
namespace {

Row data_row(const job::Job& job, const data::Source& source) {
  const plan::Batching& b = job.plan.batching;
  const std::int64_t read = job.settled.config().train.steps * b.global_batch * b.length;
  const std::int64_t all = source.num_train();
  const std::string apart = source.validation_name();
  return {
      "data",
      format("{} {} to train on, {}{} to validate; {} read {} = {:.3g} epochs", format_grouped(all),
             source.unit().plural, format_grouped(source.num_validation()),
             apart.empty() ? "" : " of " + apart, counted(job.settled.config().train.steps, "step"),
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
  for (const auto& [name, version] : measure::product_libraries())
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

Row peak_row(const measure::MeasuredPeak& peak, bool recomputes) {
  const std::string measured = peak.measurements == 1
                                   ? "measured now"
                                   : format("the best of {} measurements", peak.measurements);
  return {"peak", format("{} for {} matrix products on {} thread{}, {}; MFU* is the share of it{}",
                         trim(flops_text(peak.flops_per_s)), to_string(peak.dtype), peak.threads,
                         peak.threads == 1 ? "" : "s", measured,
                         recomputes ? ", HFU* that with what is computed again" : "")};
}

}  // namespace

std::string shared_cores(const rundir::JobFacts& facts, std::size_t ranks_here) {
  const int cores = facts.are_processes ? host_facts().cores_online : num_usable_cores();
  if (ranks_here <= static_cast<std::size_t>(cores)) return {};
  return format("{} ranks share {} core{}", ranks_here, cores, cores == 1 ? "" : "s");
}

Rows startup_rows(const job::Job& job, const data::Source& source, const rundir::JobFacts& facts,
                  const std::optional<measure::MeasuredPeak>& peak,
                  const job::FoundKernels& kernels, std::size_t ranks_here) {
  Rows rows = show::summary_rows(job);
  rows.push_back(data_row(job, source));
  const bool is_made_up = data::row_of(job.settled.config().data.format).is_made_up;
  if (!is_made_up && !source.read_as().empty())
    rows.push_back({"read as", source.read_as() + "; data.format names another"});
  if (facts.ranks > 1) rows.push_back(ranks_row(facts, ranks_here));
  rows.push_back(show::device_row(job));
  rows.push_back(host_row(job, host_facts(), ranks_here));
  rows.push_back(libraries_row(facts));
  if (!kernels.origin.empty())
    rows.push_back({"products", format("each by its fastest kernel: {}", kernels.origin)});
  if (peak) rows.push_back(peak_row(*peak, plan::with_fit(job.plan, job.fit).repeats_any()));
  return rows;
}

}  // namespace fourfold::training_run
