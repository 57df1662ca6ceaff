// A hash that tells most changes of a file without reading all of it.
#pragma once

#include <cstdint>

#include "data/data_file.h"

namespace fourfold::data {

/// The hash of the size and of 64 pieces of 4 KiB: the first, the last, the others evenly between
/// them; of all bytes of a file of up to 256 KiB.
std::uint64_t sampled_hash(const DataFile& file);

}  // namespace fourfold::data
