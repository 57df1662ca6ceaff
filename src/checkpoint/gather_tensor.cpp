#include "checkpoint/gather_tensor.h"

#include "base/error.h"
#include "checkpoint/box.h"

namespace fourfold::checkpoint {

std::vector<std::byte> gather_tensor(comm::World& world, const Mesh& mesh,
                                     const program::Buffer& buffer,
                                     std::span<const std::byte> local, int tag) {
  const bool is_root = world.rank().index() == 0;
  const Box tensor = whole_box(buffer.global);
  const std::int64_t element = size_bytes(buffer.dtype);
  std::vector<std::byte> whole, received;
  if (is_root) whole.resize(static_cast<std::size_t>(buffer.global.elements() * element));
  for (std::size_t position = 0; position < mesh.ranks.size(); ++position) {
    if (!is_owner(mesh, buffer, position)) continue;
    const Rank owner = mesh.ranks[position];
    const bool is_own = owner == world.rank();
    if (is_own && !is_root) world.send(Rank(0), tag, local);
    if (!is_root) continue;
    const Box memory = memory_box(mesh, buffer, position);
    if (!is_own) {
      received.resize(static_cast<std::size_t>(memory.elements() * element));
      world.recv(owner, tag, received);
    }
    copy_box(held_box(mesh, buffer, position), memory, is_own ? local : received, tensor, whole,
             element);
  }
  return whole;
}

}  // namespace fourfold::checkpoint
