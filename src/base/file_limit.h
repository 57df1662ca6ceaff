// The limit on files that this process has open at once is asked for and raised here.
#pragma once

#include <cstdint>

namespace fourfold {

/// Raises the soft limit (ulimit -n, often 1,024) to the hard one, as far as 65,536: sets of data
/// have a file a shard. Only a program may do so that hands no descriptor to select(2), which knows
/// 1,024. Returns the limit that holds then; it is never lowered, and stays where it cannot be
/// raised.
std::int64_t raise_file_limit();

}  // namespace fourfold
