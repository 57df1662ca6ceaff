// A sharded tensor put together on one rank.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/world.h"
#include "program/program.h"

namespace fourfold::checkpoint {

/// The logical tensor, dense and row-major, on rank 0; nothing on the others. All ranks of the
/// world call together, with the buffer of the same name and its local bytes. Of ranks that hold
/// the same part, the first one sends it. Requires cuts in whole blocks. `tag` (0 ... 32767) tells
/// messages of different tensors apart.
std::vector<std::byte> gather_tensor(comm::World& world, const Mesh& mesh,
                                     const program::Buffer& buffer,
                                     std::span<const std::byte> local, int tag);

}  // namespace fourfold::checkpoint
