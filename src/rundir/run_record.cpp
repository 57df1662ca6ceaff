#include "rundir/run_record.h"

#include <array>
#include <chrono>
#include <ctime>

#include "base/file.h"
#include "base/format.h"
#include "base/host_facts.h"

namespace fourfold::rundir {
namespace {

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm fields{};
  gmtime_r(&now, &fields);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &fields);
  return text.data();
}

Json list_of(std::span<const std::string> texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push(text);
  return list;
}

Json host_json() {
  const HostFacts host = host_facts();
  Json json = Json::object()
                  .set("name", host.name)
                  .set("system", host.system)
                  .set("cpu", host.cpu_model)
                  .set("cpu_features", list_of(host.cpu_features))
                  .set("cores_online", host.cores_online)
                  .set("affinity", core_list(host.cores))
                  .set("memory_bytes", host.memory_bytes)
                  .set("memory_available_bytes", host.memory_available_bytes);
  if (host.cpu_limit) json.set("cpu_limit", *host.cpu_limit);
  if (host.memory_limit_bytes) json.set("memory_limit_bytes", *host.memory_limit_bytes);
  return json;
}

Json job_json(const JobFacts& job) {
  Json json = Json::object()
                  .set("ranks", job.ranks)
                  .set("ranks_are", job.are_processes ? "processes" : "threads")
                  .set("threads_per_rank", job.threads_per_rank);
  if (!job.hosts.empty()) json.set("hosts", list_of(job.hosts));
  if (!job.mpi.empty()) json.set("mpi", job.mpi);
  if (job.measured_peak.kind() != Json::Kind::null) json.set("measured_peak", job.measured_peak);
  return json;
}

}  // namespace

std::string current_directory() {
  std::string path = absolute_path(".");
  if (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string shell_quoted(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'')
      quoted += "'\\''";
    else
      quoted += letter;
  }
  return quoted + "'";
}

std::string command_text(std::span<const std::string> command, const std::string& directory,
                         std::size_t processes) {
  std::string text =
      "# sh command.txt repeats this run. Options may follow: sh command.txt --set run.dir=DIR\n";
  if (processes > 1)
    text += format("# It was {} processes of a launcher: mpirun -np {} sh command.txt\n", processes,
                   processes);
  text += format("cd {} &&\n", shell_quoted(directory));
  for (const std::string& word : command) text += shell_quoted(word) + ' ';
  return text + "\"$@\"\n";
}

std::span<const char* const> telling_variables() {
  static constexpr std::array names = {"OMP_NUM_THREADS",
                                       "OMP_PROC_BIND",
                                       "OMP_PLACES",
                                       "OMP_WAIT_POLICY",
                                       "OMP_DYNAMIC",
                                       "GOMP_SPINCOUNT",
                                       "GOMP_CPU_AFFINITY",
                                       "OPENBLAS_NUM_THREADS",
                                       "OPENBLAS_CORETYPE",
                                       "ONEDNN_MAX_CPU_ISA",
                                       "ONEDNN_VERBOSE",
                                       "MALLOC_ARENA_MAX",
                                       "LD_PRELOAD",
                                       "SLURM_JOB_ID",
                                       "SLURM_JOB_NUM_NODES",
                                       "SLURM_NTASKS",
                                       "SLURM_CPUS_PER_TASK",
                                       "OMPI_COMM_WORLD_SIZE",
                                       "PMI_SIZE"};
  return names;
}

Json environment_json(const JobFacts& job, const BuildRecord& build,
                      const comm::Variable& variable) {
  Json variables = Json::object();
  for (const char* name : telling_variables())
    if (const auto value = variable(name)) variables.set(name, *value);
  return Json::object()
      .set("start", now_utc())
      .set("directory", current_directory())
      .set("build", build.build)
      .set("libraries", build.libraries)
      .set("host", host_json())
      .set("job", job_json(job))
      .set("variables", variables);
}

}  // namespace fourfold::rundir
