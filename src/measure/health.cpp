#include "measure/health.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "base/cores.h"
#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "base/units.h"
#include "comm/nccl_api.h"
#include "kernels/cpu/libraries.h"
#include "measure/build_info.h"
#include "measure/cuda_parts.h"

namespace fourfold::measure {
namespace {

using Item = HealthItem;
using Items = std::vector<HealthItem>;

constexpr std::int64_t mebibyte = std::int64_t{1} << 20, gibibyte = std::int64_t{1} << 30;

/// Advice where there is trouble, none where there is not.
Item item(std::string name, std::string text, Verdict trouble, std::string advice) {
  return {advice.empty() ? Verdict::ok : trouble, std::move(name), std::move(text),
          std::move(advice)};
}

void add_build(Items& items) {
  const BuildInfo build = build_info();
  std::string advice;
  if (!build.sanitizers.empty())
    advice = "this build checks itself and is slow; build without FOURFOLD_SANITIZE to train";
  else if (build.type != "Release")
    advice = "only a Release build is fast: scripts/build";
  items.push_back(item("build",
                       format("fourfold {}, commit {}; {}, {}, {}", build.version, build.commit,
                              build.compiler, build.type, trim(build.flags)),
                       Verdict::warn, advice));
  std::string libraries;
  for (const auto& [name, version] : library_versions())
    libraries += format("{}{} {}", libraries.empty() ? "" : "; ", name, version);
  items.push_back({Verdict::ok, "libraries", libraries, ""});
}

/// Instruction sets of `wanted` that are not in `there`.
std::string missing(const std::vector<std::string>& wanted, const std::vector<std::string>& there) {
  std::string text;
  for (const std::string& name : wanted)
    if (std::find(there.begin(), there.end(), name) == there.end())
      text += (text.empty() ? "" : ", ") + name;
  return text;
}

void add_cpu(const HostFacts& host, Items& items) {
  const std::vector<std::string> built = kernels::cpu::instruction_sets();
  std::vector<std::string> telling;  // of what the machine has
  for (const char* name : {"avx2", "avx512f", "avx512_bf16", "amx_bf16", "sve"})
    if (std::find(host.cpu_features.begin(), host.cpu_features.end(), name) !=
        host.cpu_features.end())
      telling.emplace_back(name);
  const std::string lacking = host.cpu_features.empty() ? "" : missing(built, host.cpu_features),
                    unused = missing(telling, built);
  const bool is_slow =
      unused.find("avx2") != std::string::npos || unused.find("avx512f") != std::string::npos;
  const std::string text =
      format("{}; has {}; built for {}; bf16 {}",
             host.cpu_model.empty() ? "unknown model" : host.cpu_model,
             telling.empty() ? "no wide vectors" : join(telling, " "),
             built.empty() ? "the least of its kind" : join(built, " "),
             kernels::cpu::has_bf16_products() ? "has products of its own"
                                               : "is computed in fp32, which saves memory alone");
  if (!lacking.empty())
    items.push_back(
        item("cpu", text, Verdict::bad,
             format("this CPU lacks {}; build on it, or with -DFOURFOLD_ARCH=x86-64-v2", lacking)));
  else
    items.push_back(item("cpu", text, Verdict::warn,
                         is_slow ? "the build leaves vectors of this CPU unused; build on it, with "
                                   "-DFOURFOLD_ARCH=native"
                                 : ""));
}

void add_cores(const HostFacts& host, Items& items) {
  std::string text = format("{} of {} may be used: {}", host.cores.size(), host.cores_online,
                            core_list(host.cores));
  std::string advice;
  if (host.cpu_limit) {
    text += format("; the control group allows the time of {:.3g}, so run.threads: 0 takes {}",
                   *host.cpu_limit, cores_within(host.cores.size(), host.cpu_limit));
  }
  if (advice.empty() && host.cores.size() == 1 && host.cores_online > 1)
    advice =
        "this process is bound to one core; ask the launcher for more (mpirun --bind-to none, "
        "srun --cpus-per-task)";
  items.push_back(item("cores", text, Verdict::warn, advice));
}

void add_memory(const HostFacts& host, Items& items) {
  std::string text = format("{}, {} free", format_bytes(host.memory_bytes),
                            format_bytes(host.memory_available_bytes));
  if (host.memory_limit_bytes)
    text += format("; the control group allows {}", format_bytes(*host.memory_limit_bytes));
  const std::int64_t free = host.memory_available_bytes;
  if (free < 64 * mebibyte)
    items.push_back({Verdict::bad, "memory", text, "too little for any run; end other processes"});
  else
    items.push_back(
        item("memory", text, Verdict::warn, free < gibibyte ? "enough for small models only" : ""));
}

std::string limit_text(rlim_t limit, bool is_bytes) {
  if (limit == RLIM_INFINITY) return "unlimited";
  const auto value = static_cast<std::int64_t>(limit);
  return is_bytes ? format_bytes(value) : format_grouped(value);
}

void add_limits(Items& items) {
  const auto limit = [](auto which) {
    rlimit value{RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(which, &value);
    return value.rlim_cur;
  };
  const rlim_t locked = limit(RLIMIT_MEMLOCK), files = limit(RLIMIT_NOFILE),
               space = limit(RLIMIT_AS);
  // Adapters that write into another machine's memory register it, which locks it.
  const bool has_fabric = std::filesystem::exists("/sys/class/infiniband");
  items.push_back(
      item("locked", limit_text(locked, true) + " (ulimit -l)", Verdict::warn,
           has_fabric && locked != RLIM_INFINITY
               ? "the network adapter registers memory: ulimit -l unlimited, on every host"
               : ""));
  constexpr rlim_t few_files = 1024;
  items.push_back(item("open files", limit_text(files, false) + " (ulimit -n)", Verdict::warn,
                       files < few_files ? "many ranks on a host want more: ulimit -n 4096" : ""));
  const std::string text = limit_text(space, true) + " (ulimit -v)";
  const std::string advice =
      space == RLIM_INFINITY ? "" : "regions of memory are reserved whole: ulimit -v unlimited";
  const bool is_hopeless = space < static_cast<rlim_t>(gibibyte);
  items.push_back(item("addresses", text, is_hopeless ? Verdict::bad : Verdict::warn, advice));
}

void add_huge_pages(Items& items) {
  const auto line = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  if (!line) {
    items.push_back({Verdict::ok, "huge pages", "this system does not say", ""});
    return;
  }
  const auto open = line->find('['), close = line->find(']');
  const std::string mode = open == std::string::npos || close == std::string::npos
                               ? *line
                               : line->substr(open + 1, close - open - 1);
  items.push_back(item("huge pages", "transparent: " + mode, Verdict::warn,
                       mode == "never" ? "large models run faster with madvise in "
                                         "/sys/kernel/mm/transparent_hugepage/enabled"
                                       : ""));
}

void add_openmp(std::span<const char* const> telling_variables, const comm::Variable& variable,
                Items& items) {
  std::string text;
  for (const char* name : telling_variables) {
    const std::string_view word = name;
    if (!word.starts_with("OMP_") && !word.starts_with("GOMP_") && !word.starts_with("OPENBLAS_") &&
        !word.starts_with("ONEDNN_"))
      continue;
    // Fourfold sets this one for itself.
    if (word == "GOMP_SPINCOUNT") continue;
    if (const auto value = variable(name))
      text += format("{}{}={}", text.empty() ? "" : " ", name, *value);
  }
  std::string advice;
  if (variable("OMP_NUM_THREADS") || variable("OPENBLAS_NUM_THREADS"))
    advice = "the number of threads is set by run.threads, not by these";
  std::string policy = variable("OMP_WAIT_POLICY").value_or("");
  std::transform(policy.begin(), policy.end(), policy.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (policy == "active")
    advice =
        "threads that spin while they wait starve ranks that share their cores; unset "
        "OMP_WAIT_POLICY";
  items.push_back(
      item("openmp", text.empty() ? "no settings" : text, Verdict::warn, std::move(advice)));
}

/// The first folder of PATH with such a program; empty where there is none.
std::string program_path(const std::string& name, const comm::Variable& variable) {
  for (const std::string& folder : split(variable("PATH").value_or(""), ':')) {
    const std::string path = format("{}/{}", folder, name);
    if (!folder.empty() && access(path.c_str(), X_OK) == 0) return path;
  }
  return {};
}

void add_launchers(const comm::Variable& variable, Items& items) {
  const std::string mpirun = program_path("mpirun", variable);
  std::string library;
  for (const auto& [name, version] : library_versions())
    if (name == "MPI") library = version;
  items.push_back(
      item("mpi", format("{}; {}", library, mpirun.empty() ? "no mpirun" : mpirun), Verdict::warn,
           mpirun.empty() ? "ranks as threads need none; for processes install openmpi-bin" : ""));
  const auto job = variable("SLURM_JOB_ID");
  const std::string sbatch = program_path("sbatch", variable);
  items.push_back({Verdict::ok, "slurm",
                   job              ? format("inside job {}", *job)
                   : sbatch.empty() ? "none here"
                                    : sbatch + ", not inside a job",
                   ""});
}

std::string device_text(const machine::CudaDevice& device, std::optional<std::int64_t> free_bytes) {
  std::string text = format("{}, {}.{}, {}", device.name, device.capability.major,
                            device.capability.minor, format_bytes(device.memory_bytes));
  if (free_bytes) text += format(" ({} free)", format_bytes(*free_bytes));
  text += format(", {} multiprocessors, {} of L2", device.multiprocessors,
                 format_bytes(device.l2_bytes));
  if (device.clock_hz > 0) text += format(", {:.3g} GHz", device.clock_hz / 1e9);
  return text;
}

/// What keeps ranks from talking by NCCL, which is loaded when they do. Which one a build has found
/// does not matter: it takes nothing of its header.
std::optional<std::string> trouble_with_nccl() {
  try {
    comm::load_nccl();
    return std::nullopt;
  } catch (const UserError& error) {
    return error.what();
  }
}

/// The versions of CUDA and of what goes with it; their troubles.
void add_cuda_libraries(const machine::CudaFacts& facts, Items& items) {
  std::string text =
      format("CUDA {} for {}", machine::cuda_version(facts.runtime), facts.architectures);
  if (facts.driver > 0)
    text += format("; the driver knows {}", machine::cuda_version(facts.driver));
  std::string advice;
  for (const machine::CudaLibrary& library : cuda_libraries()) {
    if (!library.loaded.empty()) text += format("; {} {}", library.name, library.loaded);
    const auto trouble = library.name == "NCCL" ? trouble_with_nccl() : machine::trouble(library);
    if (trouble) advice += format("{}. ", *trouble);
  }
  items.push_back(item("cuda", text, Verdict::warn, advice));
}

/// A machine without a GPU works, so nothing here is bad.
void add_cuda(Items& items) {
  const machine::CudaFacts facts = cuda_facts();
  const bool has_driver =
      std::filesystem::exists("/proc/driver/nvidia") || std::filesystem::exists("/dev/nvidiactl");
  if (facts.state == machine::CudaState::not_built) {
    items.push_back({has_driver ? Verdict::warn : Verdict::ok, "gpu",
                     has_driver ? "an NVIDIA driver is here, but no CUDA in this build"
                                : "no CUDA in this build",
                     machine::trouble(facts)});
    return;
  }
  add_cuda_libraries(facts, items);
  for (std::size_t i = 0; i < facts.devices.size(); ++i) {
    machine::CudaFacts one = facts;
    one.devices = {facts.devices[i]};
    machine::judge(one, machine::CudaAnswer::devices);
    items.push_back(item(format("gpu {}", i),
                         device_text(facts.devices[i], cuda_free_memory_bytes(static_cast<int>(i))),
                         Verdict::warn, machine::trouble(one)));
  }
  if (facts.devices.empty())
    items.push_back({Verdict::warn, "gpu", "none that can be used", machine::trouble(facts)});
}

void add_disk(Items& items) {
  struct statvfs disk{};
  const std::string here = ".";
  if (statvfs(here.c_str(), &disk) != 0) {
    items.push_back({Verdict::warn, "disk", "this folder cannot be read",
                     "change to a folder that exists and is yours"});
    return;
  }
  const auto free =
      static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
  const bool is_writable = access(here.c_str(), W_OK) == 0;
  std::string advice;
  if (!is_writable)
    advice = "runs/ cannot be made here; set run.dir to a folder that can be written";
  else if (free < gibibyte)
    advice = "weights and metrics may not fit; free some space or set run.dir elsewhere";
  items.push_back(item(
      "disk",
      format("{} free{} in this folder", format_bytes(free), is_writable ? "" : ", not writable"),
      Verdict::warn, advice));
}

}  // namespace

std::vector<HealthItem> health(const HostFacts& host,
                               std::span<const char* const> telling_variables,
                               const comm::Variable& variable) {
  Items items;
  add_build(items);
  add_cpu(host, items);
  add_cores(host, items);
  add_memory(host, items);
  add_limits(items);
  add_huge_pages(items);
  add_openmp(telling_variables, variable, items);
  add_launchers(variable, items);
  add_cuda(items);
  add_disk(items);
  return items;
}

}  // namespace fourfold::measure
