#include "compile/choose_kernels.h"

#include <algorithm>
#include <cstdint>
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

}  // namespace

program::Program choose_kernels(program::Program program, const machine::Target& target) {
  const program::BufferId workspace(program.buffers.size());
  std::int64_t largest = 0;
  KernelChooser chooser(target);
  for (program::Instruction& instruction : program.instructions) {
    auto* compute = std::get_if<program::Compute>(&instruction.what);
    if (compute == nullptr) continue;
    const auto& [implementation, bytes] =
        chooser.choose(*compute, program.operand_shapes(*compute));
    compute->implementation = implementation;
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
