#include "job/find_kernels.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/host_facts.h"
#include "base/small_file.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "config/config.h"
#include "kernels/cpu/target.h"
#include "measure/build_info.h"
#include "measure/cpu_choosing.h"
#include "measure/cuda_parts.h"
#include "measure/cuda_run.h"
#include "measure/kernel_table.h"
#include "measure/step_calls.h"

namespace fourfold::job {
namespace {

using machine::KernelTable;

/// Work of a run below which ten seconds of measuring would be felt: a minute at 200 GFLOP/s, and
/// on a GPU at 300 TFLOP/s.
constexpr double least_flops = 1.2e13, least_gpu_flops = 1.8e16;

bool is_on_gpu(const Preparation& run) {
  return run.device() == Device::cuda;
}

/// As a table names what it was measured on.
std::string owner_of_table(const Preparation& run) {
  return is_on_gpu(run) ? measure::kernel_device().value_or("a GPU that does not answer")
                        : measure::kernel_cpu();
}

KernelTable parse_table(const Preparation& run, const std::string& text, const std::string& path) {
  return is_on_gpu(run) ? measure::parse_device_table(text, path)
                        : measure::parse_cpu_table(text, path);
}

/// A table of the run's machine.
KernelTable table_of(const Preparation& run, std::vector<KernelTable::Line> lines) {
  KernelTable table{.cpu = {}, .lines = std::move(lines)};
  (is_on_gpu(run) ? table.device : table.cpu) = owner_of_table(run);
  return table;
}

std::string one_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

/// What decides whether a kernel that was the fastest still is: machine, libraries and the ways to
/// multiply, so that a way that is new is tried.
std::string machine_of_kernels(const Preparation& run) {
  std::string machine = owner_of_table(run);
  if (is_on_gpu(run)) {
    for (const op::Op& row : op::all_rows())
      if (op::work_class(row) == op::WorkClass::product)
        for (const std::string& name :
             measure::cuda_implementations(std::string(op::name(row)), DType::bf16))
          machine += format(", {} by {}", op::name(row), name);
    for (const machine::CudaLibrary& library : measure::cuda_libraries())
      machine += format(", {} {}", library.name, library.loaded);
    if (!run.config().deterministic) machine += ", kernels of any order";
    return machine;
  }
  machine += format(", {} cores", host_facts().cores_online);
  for (const auto& [name, version] : measure::product_libraries())
    machine += format(", {} {}", name, version);
  for (const std::string& name : kernels::cpu::contract_implementations(DType::f32))
    machine += format(", {}", name);
  return machine;
}

/// What a line is about, which implementation it names aside.
bool are_of_one_kernel(const KernelTable::Line& one, KernelTable::Line other) {
  other.implementation = one.implementation;
  other.gflops = one.gflops;
  other.workspace_bytes = one.workspace_bytes;
  return one == other;
}
bool has_line_of(const std::vector<KernelTable::Line>& lines, const KernelTable::Line& line) {
  return std::ranges::any_of(lines,
                             [&](const auto& other) { return are_of_one_kernel(line, other); });
}

/// The tables of this machine in the user's cache, a file for each machine_of_kernels.
class KernelCache {
 public:
  KernelCache(const Preparation& run, const std::string& folder) : run_(run) {
    if (folder.empty()) return;
    const std::string key = hash128_text(machine_of_kernels(run)).substr(0, 16);
    path_ = join_path(folder, format("kernels-{}.yaml", key));
  }

  /// The lines that are known; a file that cannot be used has none, and a warning.
  std::vector<KernelTable::Line> read(std::vector<std::string>& warnings) const {
    if (path_.empty() || !file_exists(path_)) return {};
    try {
      KernelTable table = parse_table(run_, read_own_file(path_), path_);
      const std::string& owner = is_on_gpu(run_) ? table.device : table.cpu;
      if (owner == owner_of_table(run_)) return std::move(table.lines);
      warnings.push_back(format("{}: measured on '{}'; it is written anew", path_, owner));
    } catch (const UserError& error) {
      warnings.push_back(format("passed over, and written anew: {}", one_line(error.what())));
    }
    return {};
  }

  /// Other starts may have written meanwhile: their lines stay.
  void add(const std::vector<KernelTable::Line>& lines, std::vector<std::string>& warnings) const {
    if (path_.empty()) return;
    std::vector<std::string> said_before;
    KernelTable table = table_of(run_, read(said_before));
    std::erase_if(table.lines,
                  [&](const KernelTable::Line& old) { return has_line_of(lines, old); });
    table.lines.insert(table.lines.end(), lines.begin(), lines.end());
    try {
      make_directories(path_.substr(0, path_.rfind('/')));
      write_file_atomic(path_, machine::to_text(table));
    } catch (const UserError& error) {
      warnings.push_back(
          format("what was measured is not kept for other runs: {}", one_line(error.what())));
    }
  }

 private:
  const Preparation& run_;
  std::string path_;
};

/// What a step computes, each once.
std::vector<kernels::Problem> problems_of(const Preparation& run) {
  const std::vector<const program::Program*> step = run.training_programs();
  std::vector<kernels::Problem> problems;
  for (const measure::Call& call : measure::calls_of(step, run.target().threads, "gemm"))
    problems.push_back(call.problem);
  return problems;
}

/// The table of the run that goes on; none where it does not fit here.
std::optional<std::string> kept_table(const Preparation& run, const std::string& path,
                                      std::vector<std::string>& warnings) {
  if (path.empty() || !file_exists(path)) return std::nullopt;
  try {
    std::string text = read_own_file(path);
    if (is_on_gpu(run))
      measure::measured_device_choices(text, path);
    else
      measure::measured_choices(text, path, run.target().threads);
    return text;
  } catch (const UserError& error) {
    warnings.push_back(format("the run's own table is passed over: {}", one_line(error.what())));
  }
  return std::nullopt;
}

/// Lines of a step: those that are known, and those that are measured now.
std::vector<KernelTable::Line> lines_of_step(const Preparation& run,
                                             const std::vector<KernelTable::Line>& known,
                                             const KernelSources& sources) {
  const std::vector<kernels::Problem> problems = problems_of(run);
  return is_on_gpu(run) ? measure::time_cuda_kernels(sources.gpu, known, problems, run.target(),
                                                     sources.limit_s)
                        : measure::time_kernels(known, problems, run.target(), sources.limit_s);
}

}  // namespace

std::string named_kernel_table(const std::string& value) {
  if (value == config::KernelTable::automatic || value == config::KernelTable::builtin) return {};
  if (value.empty() || !file_exists(value))
    throw UserError(ExitCode::bad_config,
                    format("run.kernel_table: there is no file '{}'; expected auto, builtin, or a "
                           "file of `fourfold bench kernels CONFIG -o FILE`",
                           value));
  return read_file(value, ExitCode::bad_config);
}

bool may_find_kernels(const Preparation& run) {
  return run.config().kernel_table == config::KernelTable::automatic &&
         run.config().kernels != "reference";
}

bool wants_kernels(const Preparation& run) {
  return may_find_kernels(run) &&
         model_flops_of_run(run.planned()) >= (is_on_gpu(run) ? least_gpu_flops : least_flops);
}

std::string place_of_kernels(const Preparation& run) {
  return is_on_gpu(run) ? owner_of_table(run)
                        : format("{}, {} threads", measure::kernel_cpu(), run.target().threads);
}

FoundKernels find_kernels(const Preparation& run, const KernelSources& sources) {
  FoundKernels found;
  if (const auto kept = kept_table(run, sources.kept, found.warnings)) {
    found.table = *kept;
    found.origin = format("as this run began: {}", sources.kept);
    return found;
  }
  const KernelCache cache(run, sources.cache_folder);
  const std::vector<KernelTable::Line> known = cache.read(found.warnings);
  const Stopwatch watch;
  KernelTable table = table_of(run, lines_of_step(run, known, sources));
  const double measured_s = watch.seconds();
  if (table.lines.empty()) return found;
  if (std::ranges::any_of(table.lines, [&](const auto& line) {
        return std::ranges::find(known, line) == known.end();
      }))
    cache.add(table.lines, found.warnings);
  const auto before = std::ranges::count_if(
      table.lines, [&](const auto& line) { return has_line_of(known, line); });
  const auto measured = std::ranges::ssize(table.lines) - before;
  found.table = machine::to_text(std::move(table));
  if (before > 0) found.origin = format("{} known from earlier starts", before);
  if (measured > 0)
    found.origin += format("{}{} measured now in {}", before > 0 ? ", " : "", measured,
                           format_duration(measured_s));
  return found;
}

}  // namespace fourfold::job
