// The numbers of processes in files of timelines, for who writes and who reads them.
#pragma once

#include <cstddef>

namespace fourfold::trace {

/// A rank that ran is the process of its number; one that was predicted is as many above this,
/// which is more than any job has ranks.
constexpr std::size_t first_predicted_process = std::size_t{1} << 24;

}  // namespace fourfold::trace
