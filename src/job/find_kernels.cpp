#include "job/find_kernels.h"

#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/host_facts.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "job/build_info.h"
#include "job/kernel_table.h"
#include "kernels/cpu/target.h"
#include "measure/cpu_choosing.h"
#include "measure/step_calls.h"

namespace fourfold::job {
namespace {

using machine::KernelTable;

/// Work of a run below which ten seconds of measuring would be felt: a minute at 200 GFLOP/s.
constexpr double least_flops = 1.2e13;

std::string one_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// The tables of this machine in the user's cache: one file for each set of libraries and of ways
/// to multiply, so that a way that is new is tried.
class KernelCache {
 public:
  explicit KernelCache(const std::string& folder) {
    if (folder.empty()) return;
    std::string machine = format("{}, {} cores", kernel_cpu(), host_facts().cores_online);
    for (const auto& [name, version] : library_versions())
      if (name == "OpenBLAS" || name == "oneDNN") machine += format(", {} {}", name, version);
    for (const std::string& name : kernels::cpu::contract_implementations(DType::f32))
      machine += format(", {}", name);
    path_ = join_path(folder, format("kernels-{}.yaml", hash128_text(machine).substr(0, 16)));
  }

  /// The lines that are known; a file that cannot be used has none, and a warning.
  std::vector<KernelTable::Line> read(std::vector<std::string>& warnings) const {
    if (path_.empty() || !file_exists(path_)) return {};
    try {
      KernelTable table = parse_cpu_table(read_file(path_), path_);
      if (table.cpu == kernel_cpu()) return std::move(table.lines);
      warnings.push_back(format("{}: measured on '{}'; it is written anew", path_, table.cpu));
    } catch (const UserError& error) {
      warnings.push_back(format("passed over, and written anew: {}", one_line(error.what())));
    }
    return {};
  }

  /// Other starts may have written meanwhile: their lines stay.
  void add(const std::vector<KernelTable::Line>& measured,
           std::vector<std::string>& warnings) const {
    if (path_.empty()) return;
    std::vector<std::string> said_before;
    KernelTable table{kernel_cpu(), read(said_before)};
    std::erase_if(table.lines, [&](const KernelTable::Line& old) {
      return std::ranges::any_of(measured, [&](const auto& line) { return is_same(old, line); });
    });
    table.lines.insert(table.lines.end(), measured.begin(), measured.end());
    try {
      make_directories(path_.substr(0, path_.rfind('/')));
      write_file_atomic(path_, machine::to_text(table));
    } catch (const UserError& error) {
      warnings.push_back(
          format("what was measured is not kept for other runs: {}", one_line(error.what())));
    }
  }

 private:
  static bool is_same(const KernelTable::Line& one, KernelTable::Line other) {
    other.implementation = one.implementation;
    other.gflops = one.gflops;
    return one == other;
  }

  std::string path_;
};

/// What a step computes, each once.
std::vector<kernels::Problem> problems_of(const Job& job) {
  std::vector<const program::Program*> step;
  for (const program::Bundle& bundle : job.programs.classes) step.push_back(&bundle.at("train"));
  std::vector<kernels::Problem> problems;
  for (const measure::Call& call : measure::calls_of(step, job.target.threads, "gemm"))
    problems.push_back(call.problem);
  return problems;
}

/// The table of the run that goes on; none where it does not fit here.
std::optional<std::string> kept_table(const Job& job, const std::string& path,
                                      std::vector<std::string>& warnings) {
  if (path.empty() || !file_exists(path)) return std::nullopt;
  try {
    std::string text = read_file(path);
    measured_choices(text, path, job.target.threads);
    return text;
  } catch (const UserError& error) {
    warnings.push_back(format("the run's own table is passed over: {}", one_line(error.what())));
  }
  return std::nullopt;
}

}  // namespace

bool may_find_kernels(const Job& job) {
  return job.config.kernel_table == config::KernelTable::automatic && job.device == Device::cpu &&
         job.config.kernels != "reference";
}

bool wants_kernels(const Job& job) {
  return may_find_kernels(job) && model_flops_of_run(job) >= least_flops;
}

FoundKernels find_kernels(const Job& job, const KernelSources& sources) {
  FoundKernels found;
  if (const auto kept = kept_table(job, sources.kept, found.warnings)) {
    found.table = *kept;
    found.origin = format("as this run began: {}", sources.kept);
    return found;
  }
  const KernelCache cache(sources.cache_folder);
  const std::vector<KernelTable::Line> known = cache.read(found.warnings);
  const std::vector<kernels::Problem> problems = problems_of(job);
  std::vector<kernels::Problem> missing;
  for (const kernels::Problem& problem : problems)
    if (measure::find_line(known, problem) == nullptr) missing.push_back(problem);
  const Stopwatch watch;
  const std::vector<KernelTable::Line> measured =
      measure::time_kernels(missing, job.target, sources.limit_s);
  const double measured_s = watch.seconds();
  if (!measured.empty()) cache.add(measured, found.warnings);

  KernelTable table{kernel_cpu(), {}};
  for (const kernels::Problem& problem : problems)
    for (const auto* lines : {&known, &measured})
      if (const auto* line = measure::find_line(*lines, problem);
          line != nullptr && measure::find_line(table.lines, problem) == nullptr)
        table.lines.push_back(*line);
  if (table.lines.empty()) return found;
  const std::size_t before = table.lines.size() - measured.size();
  found.table = machine::to_text(table);
  if (before > 0) found.origin = format("{} known from earlier starts", before);
  if (!measured.empty())
    found.origin += format("{}{} measured now in {}", before > 0 ? ", " : "", measured.size(),
                           format_duration(measured_s));
  return found;
}

}  // namespace fourfold::job
