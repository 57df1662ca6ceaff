#include "compile/choose_kernels.h"

#include <algorithm>

#include "compile/persistent_region.h"

namespace fourfold::compile {
program::Program choose_kernels(program::Program program, const machine::Target& target) {
  const program::BufferId workspace(program.buffers.size());
  std::int64_t largest = 0;
  for (program::Instruction& instruction : program.instructions) {
    auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr) continue;
    const std::vector<Shape> shapes = program.operand_shapes(*compute);
    compute->implementation = machine::choose(target, compute->op, shapes, compute->dtype);
    const std::int64_t bytes = align_up(
        target.workspace_bytes(compute->implementation, compute->op, shapes, compute->dtype));
    if (bytes > 0) compute->workspace = program::Slice{workspace, 0, 1, bytes, 0};
    largest = std::max(largest, bytes);
  }
  if (largest == 0) return program;
  program::Buffer buffer;
  buffer.name = "workspace";
  buffer.dtype = DType::u64;
  buffer.global = {largest / 8};
  buffer.sharding.mesh = program.buffers.front().sharding.mesh;
  buffer.role = program::BufferRole::workspace;
  buffer.size_bytes = largest;
  program.buffers.push_back(std::move(buffer));
  return program;
}

}  // namespace fourfold::compile
