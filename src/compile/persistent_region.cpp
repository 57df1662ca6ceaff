#include "compile/persistent_region.h"

#include <set>

#include "base/error.h"
#include "op/blocks.h"

namespace fourfold::compile {
namespace {

program::BufferRole buffer_role(graph::ValueRole role) {
  switch (role) {
    case graph::ValueRole::parameter:
      return program::BufferRole::parameter;
    case graph::ValueRole::moment:
      return program::BufferRole::moment;
    case graph::ValueRole::average:
      return program::BufferRole::average;
    case graph::ValueRole::counter:
      return program::BufferRole::counter;
    case graph::ValueRole::cache:
      return program::BufferRole::cache;
    default:
      fail_internal("only persistent values lie in the persistent region");
  }
}

program::Buffer block_buffer(std::string name, program::BufferRole role, std::size_t bytes,
                             MeshId mesh) {
  program::Buffer buffer;
  buffer.sharding.mesh = mesh;
  buffer.name = std::move(name);
  buffer.dtype = DType::i64;
  buffer.global = {static_cast<std::int64_t>(bytes / 8)};
  buffer.region = program::Region::persistent;
  buffer.role = role;
  buffer.size_bytes = static_cast<std::int64_t>(bytes);
  buffer.two_by_parity = true;
  return buffer;
}

program::Buffer rounded_copy(const program::Buffer& parameter, DType compute) {
  program::Buffer copy = parameter;
  copy.name = program::name_of_rounded(parameter.name);
  copy.role = program::BufferRole::rounded;
  copy.dtype = compute;
  copy.size_bytes = parameter.size_bytes / size_bytes(parameter.dtype) * size_bytes(compute);
  return copy;
}

}  // namespace

PersistentRegion persistent_region(const graph::ModelGraphs& model, const plan::Plan& plan,
                                   MeshId mesh, const std::set<std::string>& rounded) {
  PersistentRegion region;
  const auto place = [&](program::Buffer buffer) {
    buffer.offset_bytes = region.bytes;
    region.bytes = align_up(region.bytes + buffer.space_bytes());
    region.buffers.push_back(std::move(buffer));
  };
  place(block_buffer("step", program::BufferRole::step_block, sizeof(op::StepBlock), mesh));
  place(block_buffer("result", program::BufferRole::result_block, sizeof(op::ResultBlock), mesh));
  std::set<std::string> seen;
  for (const graph::Graph& graph : model.graphs)
    for (std::size_t i = 0; graph.mesh == mesh && i < graph.values.size(); ++i) {
      const graph::Value& value = graph.values[i];
      if (!graph::is_persistent(value.role) || !seen.insert(value.name).second) continue;
      program::Buffer buffer;
      buffer.name = value.name;
      buffer.dtype = op::element_dtype(value.element, plan.compute);
      buffer.global = value.shape;
      buffer.sharding = plan.of(graph.kind, mesh).values[i];
      buffer.label = value.label;
      buffer.region = program::Region::persistent;
      buffer.role = buffer_role(value.role);
      buffer.size_bytes =
          op::local_shape(value.shape, buffer.sharding, plan.meshes[buffer.sharding.mesh.index()])
              .elements() *
          size_bytes(buffer.dtype);
      place(std::move(buffer));
    }
  const std::size_t without_copies = region.buffers.size();
  for (std::size_t i = 0; i < without_copies; ++i)
    if (rounded.contains(region.buffers[i].name))
      place(rounded_copy(region.buffers[i], plan.compute));
  return region;
}

}  // namespace fourfold::compile
