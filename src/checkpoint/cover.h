// The proof that the slices of a tensor hold each of its elements once.
#pragma once

#include <string>

#include "checkpoint/manifest.h"

namespace fourfold::checkpoint {

/// Empty when they do; otherwise what is wrong, naming tensor and slices. Cost: n log n for n
/// slices that lie on a grid of cuts, as those of any sharding do; n^2 comparisons at worst.
std::string find_gap_or_overlap(const StoredTensor& tensor);

}  // namespace fourfold::checkpoint
