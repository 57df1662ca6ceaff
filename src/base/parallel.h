// Work that is spread over the cores of this process. Not for kernels, which have threads of their
// own.
#pragma once

#include <cstddef>
#include <functional>

namespace fourfold {

/// Calls `work(i)` for every i below `count`, in any order, on as many threads as this process may
/// use cores; returns when all are done. The calling thread makes the call for 0, which may so use
/// again what that thread has freed: the largest work should stand there. What a call throws first
/// is thrown here, and no call but that for 0 begins after it.
void for_each_on_all_cores(std::size_t count, const std::function<void(std::size_t)>& work);

}  // namespace fourfold
