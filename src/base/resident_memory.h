// Memory that this process really holds, as the system counts it. Not what a plan says.
#pragma once

#include <cstdint>

namespace fourfold {

/// The most that was resident at once since the process began. Costs one system call.
std::int64_t peak_resident_bytes();

}  // namespace fourfold
