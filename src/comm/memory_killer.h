// A look at whether the kernel's memory killer has struck on this host. A process that it ends can
// say nothing itself: it gets SIGKILL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace fourfold::comm {

/// Processes that it has ended on this host since it was started, for want of memory of the machine
/// or of a control group; none where the kernel does not count them (before Linux 4.13). `path` is
/// read in the form of /proc/vmstat.
std::optional<std::int64_t> memory_kills(const std::string& path = "/proc/vmstat");

/// ", and the kernel's memory killer ..." where more were ended than `before`; else empty.
std::string memory_kill_notice(std::optional<std::int64_t> before, std::optional<std::int64_t> now);

}  // namespace fourfold::comm
