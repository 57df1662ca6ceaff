// What the machine of this process is and what it may use of it: read from /proc, /sys and the
// process's own limits. Nothing is started or measured; what cannot be read is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fourfold {

struct HostFacts {
  std::string name, system, cpu_model;
  std::vector<std::string> cpu_features;  // as /proc/cpuinfo names them
  int cores_online = 1;
  std::vector<int> cores;                   // that this process may run on
  std::optional<double> cpu_limit;          // cores' worth of time its control group may take
  std::int64_t memory_bytes = 0;            // of the machine
  std::int64_t memory_available_bytes = 0;  // that a process may still take here
  std::optional<std::int64_t> memory_limit_bytes;  // of its control group
};
HostFacts host_facts();

/// Returns the time, in cores, that this process's control group and the groups around it may take,
/// in versions 1 and 2; nothing where there is no limit. The files are those of memory_limits.
std::optional<double> cpu_limit(const std::string& groups = "/proc/self/cgroup",
                                const std::string& root = "/sys/fs/cgroup");

/// What this process may still take: free memory, or less where its control group has a limit.
std::int64_t available_memory_bytes();

/// What a control group may use of the machine's memory, and what it does.
struct MemoryLimit {
  std::int64_t limit_bytes = 0, used_bytes = 0;
};
/// The limits of this process's control group and those around it, in versions 1 and 2. `groups` is
/// read in the form of /proc/self/cgroup, `root` is where control groups are mounted.
std::vector<MemoryLimit> memory_limits(const std::string& groups = "/proc/self/cgroup",
                                       const std::string& root = "/sys/fs/cgroup");

/// "0-3,8".
std::string core_list(const std::vector<int>& cores);

/// The first line of a file of /proc or /sys; none where it cannot be read.
std::optional<std::string> first_line(const std::string& path);

/// The most that was resident at once since the process began. Costs one system call.
std::int64_t peak_resident_bytes();

}  // namespace fourfold
