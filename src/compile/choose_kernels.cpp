#include "compile/choose_kernels.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compile/persistent_region.h"

namespace fourfold::compile {
namespace {

/// Asks the target once about equal computations, as those of all micro-batches and layers are.
class KernelChooser {
 public:
  explicit KernelChooser(const machine::Target& target) : target_(target) {}

  struct Choice {
    std::string implementation;
    std::int64_t workspace_bytes = 0;
  };
  /// Valid until the next call.
  const Choice& choose(const program::Compute& compute, std::vector<Shape> shapes) {
    std::vector<Known>& alike = known_[row_and_shapes(compute, shapes)];
    for (const Known& one : alike)
      if (one.dtype == compute.dtype && one.op == compute.op && one.shapes == shapes)
        return one.choice;
    if (alike.size() == most_alike) alike.clear();  // they differ by micro-batch
    const std::string& implementation = machine::choose(target_, compute.op, shapes, compute.dtype);
    const std::int64_t bytes =
        align_up(target_.workspace_bytes(implementation, compute.op, shapes, compute.dtype));
    alike.push_back({compute.op, compute.dtype, std::move(shapes), {implementation, bytes}});
    return alike.back().choice;
  }

 private:
  static constexpr std::size_t most_alike = 16;

  struct Known {
    op::Op op;
    DType dtype;
    std::vector<Shape> shapes;
    Choice choice;
  };

  static std::uint64_t row_and_shapes(const program::Compute& compute,
                                      const std::vector<Shape>& shapes) {
    std::uint64_t hash = compute.op.index();
    for (const Shape& shape : shapes)
      for (const std::int64_t size : shape)
        hash =
            (hash ^ static_cast<std::uint64_t>(size)) * 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio
    return hash;
  }

  const machine::Target& target_;
  std::unordered_map<std::uint64_t, std::vector<Known>> known_;  // by row and shapes
};

/// The scratch of each stream, which its kernels use one after another: none waits for a kernel of
/// another stream because of it.
class Workspaces {
 public:
  explicit Workspaces(program::Program& program)
      : program_(program), buffers_(program.streams.size()) {}

  program::Slice of(program::StreamId stream, std::int64_t bytes) {
    std::optional<program::BufferId>& id = buffers_[stream.index()];
    if (!id) id = add(stream);
    program::Buffer& buffer = program_.buffers[id->index()];
    buffer.size_bytes = std::max(buffer.size_bytes, bytes);
    buffer.global = {buffer.size_bytes / 8};
    return {*id, 0, 1, bytes, 0};
  }

 private:
  program::BufferId add(program::StreamId stream) {
    const bool is_first = stream.index() == 0;
    program::Buffer buffer;
    buffer.name = is_first ? "workspace" : "workspace." + program_.streams[stream.index()];
    buffer.dtype = DType::u64;
    buffer.sharding.mesh = program_.buffers.front().sharding.mesh;
    buffer.role = program::BufferRole::workspace;
    program_.buffers.push_back(std::move(buffer));
    return program::BufferId(program_.buffers.size() - 1);
  }

  program::Program& program_;
  std::vector<std::optional<program::BufferId>> buffers_;  // by stream
};

}  // namespace

program::Program choose_kernels(program::Program program, const machine::Target& target) {
  Workspaces workspaces(program);
  KernelChooser chooser(target);
  for (program::Instruction& instruction : program.instructions) {
    auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr) continue;
    const auto& [implementation, bytes] =
        chooser.choose(*compute, program.operand_shapes(*compute));
    compute->implementation = implementation;
    if (bytes > 0) compute->workspace = workspaces.of(instruction.stream, bytes);
  }
  return program;
}

}  // namespace fourfold::compile
