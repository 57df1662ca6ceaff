#include "checkpoint/state.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/random.h"
#include "checkpoint/values.h"

namespace fourfold::checkpoint {
namespace {

bool is_state(const program::Buffer& buffer) {
  using program::BufferRole;
  return program::is_learned(buffer.role) || buffer.role == BufferRole::counter;
}

}  // namespace

std::vector<StateTensor> state_of(const program::Program& program) {
  std::vector<StateTensor> state;
  for (const program::Buffer& buffer : program.buffers) {
    if (!is_state(buffer)) continue;
    require(!buffer.blocked && !buffer.two_by_parity, "state is stored plain, and once");
    const Mesh& mesh = program.meshes[buffer.sharding.mesh.index()];
    const auto position = mesh.ranks.position(program.rank);
    if (!position) continue;
    const bool is_common =
        buffer.role == program::BufferRole::counter && buffer.sharding.mesh.index() > 0;
    state.push_back({&buffer, memory_box(mesh, buffer, *position),
                     held_box(mesh, buffer, *position),
                     !is_common && is_owner(mesh, buffer, *position)});
  }
  return state;
}

std::int64_t owned_bytes(const program::Program& program) {
  std::int64_t bytes = 0;
  for (const StateTensor& tensor : state_of(program))
    if (tensor.is_owner) bytes += tensor.held.elements() * size_bytes(tensor.buffer->dtype);
  return bytes;
}

JobState::JobState(const program::Program& program) : is_whole(program.meshes.size() == 1) {
  add(program);
}

JobState::JobState(const program::Job& job) {
  std::set<std::size_t> seen;  // meshes
  for (const program::Bundle& bundle : job.classes) {
    const program::Program& program = bundle.programs.at(0);
    for (std::size_t mesh = 0; mesh < program.meshes.size(); ++mesh)
      if (program.meshes[mesh].ranks.position(program.rank) && seen.insert(mesh).second)
        add(program);
  }
}

void JobState::add(const program::Program& program) {
  meshes = program.meshes;
  for (const program::Buffer& buffer : program.buffers)
    if (is_state(buffer) &&
        std::ranges::find(tensors, buffer.name, &program::Buffer::name) == tensors.end())
      tensors.push_back(buffer);
}

std::int64_t whole_bytes(const JobState& state) {
  std::int64_t bytes = 0;
  for (const program::Buffer& tensor : state.tensors)
    bytes += tensor.global.elements() * size_bytes(tensor.dtype);
  return bytes;
}

std::int64_t parameter_bytes(const JobState& state) {
  std::int64_t bytes = 0;
  for (const program::Buffer& tensor : state.tensors)
    if (tensor.role == program::BufferRole::parameter)
      bytes += tensor.global.elements() * size_bytes(tensor.dtype);
  return bytes;
}

std::uint64_t digest_of(std::string_view name, DType dtype, const Shape& shape, const Box& held,
                        const Box& memory, std::span<const std::byte> bytes) {
  const RandomStream stream = random_stream(name);
  const auto element = static_cast<std::size_t>(size_bytes(dtype));
  std::uint64_t digest = 0;
  for_runs(held, memory, whole_box(shape),
           [&](std::int64_t here, std::int64_t global, std::int64_t count) {
             digest += digest_of_values(dtype, stream, global,
                                        bytes.subspan(static_cast<std::size_t>(here) * element,
                                                      static_cast<std::size_t>(count) * element));
           });
  return digest;
}

}  // namespace fourfold::checkpoint
