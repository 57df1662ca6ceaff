// A piece of a sharded tensor put together on one rank. Not which pieces: save_model.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "checkpoint/box.h"
#include "comm/world.h"
#include "program/program.h"

namespace fourfold::checkpoint {

/// What a rank has of a tensor: the buffer of its program and the bytes there.
struct LocalTensor {
  const Mesh& mesh;
  const program::Buffer& buffer;
  std::span<const std::byte> bytes;
};

/// Fills `into` on rank `root`, dense and row-major, with the elements of `box` of the logical
/// tensor; nothing on the other ranks. All ranks of the mesh and the root call together; a job of
/// one rank has no world. Of ranks that hold the same elements, the first one sends them. `tag`
/// (0 ... 32767) tells messages of different tensors apart. Memory: what one rank holds of the box.
/// Requires cuts in whole blocks.
void gather_box(const LocalTensor& local, const Box& box, Rank own, Rank root, int tag,
                comm::World* world, std::span<std::byte> into);

}  // namespace fourfold::checkpoint
