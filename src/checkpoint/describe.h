// What people are told of checkpoints: a line of each, and all of one.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/store.h"

namespace fourfold::checkpoint {

/// A line with its end: step, size and grid, or what is wrong with it. `kept` says why it stays;
/// empty: it does not have to.
std::string line_of(const Store& store, std::int64_t step, const std::string& kept);

/// What a checkpoint holds: a few lines of the whole and one of each tensor.
std::string describe(const Found& found);

}  // namespace fourfold::checkpoint
