#include "checkpoint/gather_box.h"

#include "base/error.h"

namespace fourfold::checkpoint {

void gather_box(const LocalTensor& local, const Box& box, Rank own, Rank root, int tag,
                comm::World* world, std::span<std::byte> into) {
  const std::int64_t element = size_bytes(local.buffer.dtype);
  std::vector<std::byte> message;
  for (std::size_t position = 0; position < local.mesh.ranks.size(); ++position) {
    const Rank owner = local.mesh.ranks[position];
    if ((own != root && owner != own) || !is_owner(local.mesh, local.buffer, position)) continue;
    const Box part = intersection(held_box(local.mesh, local.buffer, position), box);
    if (part.is_empty()) continue;
    const bool is_own = owner == own;
    if (is_own && own == root) {
      copy_box(part, memory_box(local.mesh, local.buffer, position), local.bytes, box, into,
               element);
      continue;
    }
    require(world != nullptr, "a job of one rank holds whole tensors");
    message.resize(static_cast<std::size_t>(part.elements() * element));
    if (is_own) {
      copy_box(part, memory_box(local.mesh, local.buffer, position), local.bytes, part, message,
               element);
      world->send(root, tag, message);
    } else {
      world->recv(owner, tag, message);
      copy_box(part, part, message, box, into, element);
    }
  }
}

}  // namespace fourfold::checkpoint
