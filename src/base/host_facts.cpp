#include "base/host_facts.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/cores.h"
#include "base/format.h"
#include "base/text.h"

namespace fourfold {
namespace {

/// The number after `key` in a file of lines "key: 123 kB" or "key 123"; none when there is no
/// such line.
std::optional<std::int64_t> read_value(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::int64_t value = 0;
    if (word == key && file >> value) return value;
  }
  return std::nullopt;
}

std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

/// Folders of this process's control group and those around it, innermost first; `begin` is that of
/// its line: "0::" for version 2. In a container the root itself has the limits.
std::vector<std::string> control_groups(const std::string& groups, const std::string& begin,
                                        const std::string& root) {
  std::vector<std::string> folders;
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || line.compare(colon, begin.size(), begin) != 0) continue;
    for (std::string path = line.substr(colon + begin.size()); path.size() > 1;
         path.resize(std::max<std::size_t>(1, path.rfind('/'))))
      folders.push_back(root + path);
  }
  folders.push_back(root);
  return folders;
}

/// The microseconds of time in so many: one file has both in version 2 ("max 100000" is no limit),
/// each its own in version 1 (-1 is no limit).
std::optional<double> cpu_limit_of(const std::string& folder) {
  double quota = 0, period = 0;
  std::ifstream both(folder + "/cpu.max");
  std::ifstream first(folder + "/cpu.cfs_quota_us"), second(folder + "/cpu.cfs_period_us");
  const bool is_known =
      (both >> quota >> period) || ((first >> quota) && (second >> period) && quota > 0);
  if (is_known && period > 0) return quota / period;
  return std::nullopt;
}

std::string value_behind_colon(const std::string& line) {
  const auto colon = line.find(':');
  return colon == std::string::npos ? "" : std::string(trim(line.substr(colon + 1)));
}

void read_cpu(HostFacts& facts) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line) && facts.cpu_features.empty();) {
    if (line.starts_with("model name")) facts.cpu_model = value_behind_colon(line);
    if (line.starts_with("flags") || line.starts_with("Features")) {
      std::istringstream words(value_behind_colon(line));
      for (std::string word; words >> word;) facts.cpu_features.push_back(word);
    }
  }
  facts.cores = usable_cores();
  facts.cores_online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (std::getline(file, line)) return line;
  return std::nullopt;
}

HostFacts host_facts() {
  HostFacts facts;
  utsname name{};
  if (uname(&name) == 0) {
    facts.name = static_cast<const char*>(name.nodename);
    facts.system =
        format("{} {} {}", static_cast<const char*>(name.sysname),
               static_cast<const char*>(name.release), static_cast<const char*>(name.machine));
  }
  read_cpu(facts);
  facts.memory_bytes = read_value("/proc/meminfo", "MemTotal:").value_or(0) * 1024;
  facts.memory_available_bytes = available_memory_bytes();
  facts.cpu_limit = cpu_limit();
  for (const MemoryLimit& memory : memory_limits())
    facts.memory_limit_bytes =
        std::min(memory.limit_bytes, facts.memory_limit_bytes.value_or(memory.limit_bytes));
  return facts;
}

std::optional<double> cpu_limit(const std::string& groups, const std::string& root) {
  std::optional<double> least;
  const auto look = [&](const std::vector<std::string>& folders) {
    for (const std::string& folder : folders)
      if (const auto limit = cpu_limit_of(folder)) least = std::min(*limit, least.value_or(*limit));
  };
  look(control_groups(groups, "::", root));
  for (const std::string name : {"cpu", "cpu,cpuacct", "cpuacct,cpu"})
    look(control_groups(groups, ":" + name + ":", root + "/" + name));
  return least;
}

std::int64_t available_memory_bytes() {
  std::int64_t available = std::numeric_limits<std::int64_t>::max();
  if (const auto kib = read_value("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  for (const MemoryLimit& memory : memory_limits())
    available = std::min(available, memory.limit_bytes - memory.used_bytes);
  return available;
}

std::vector<MemoryLimit> memory_limits(const std::string& groups, const std::string& root) {
  std::vector<MemoryLimit> limits;
  const auto add = [&](const std::string& folder, const char* limit_file, const char* used_file,
                       const char* cache) {
    const auto limit = read_number(folder + limit_file), used = read_number(folder + used_file);
    // Version 1 says "no limit" by a number of pages near 2^63 bytes.
    constexpr std::int64_t none = std::int64_t{1} << 60;
    if (!limit || !used || *limit >= none) return;
    // Files that were read a while ago make room for a process.
    const std::int64_t can_go = read_value(folder + "/memory.stat", cache).value_or(0);
    limits.push_back({*limit, std::max<std::int64_t>(0, *used - can_go)});
  };
  for (const std::string& folder : control_groups(groups, "::", root))
    add(folder, "/memory.max", "/memory.current", "inactive_file");
  for (const std::string& folder : control_groups(groups, ":memory:", root + "/memory"))
    add(folder, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file");
  return limits;
}

std::string core_list(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t begin = 0; begin < cores.size();) {
    std::size_t end = begin + 1;
    while (end < cores.size() && cores[end] == cores[end - 1] + 1) ++end;
    text += format("{}{}", text.empty() ? "" : ",", cores[begin]);
    if (end > begin + 1) text += format("-{}", cores[end - 1]);
    begin = end;
  }
  return text;
}

std::int64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;  // Linux counts in KiB
}

}  // namespace fourfold
