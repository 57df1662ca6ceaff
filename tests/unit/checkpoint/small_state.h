// A model's state on the ranks of a mesh, small and with everything a checkpoint must cope with:
// cuts of two dims, padding, replicas, a scalar. Header only.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/state.h"

namespace fourfold::checkpoint {

inline Mesh mesh_of(std::int64_t data, std::int64_t y, std::int64_t x) {
  Mesh mesh{"all", {{"data", data}, {"y", y}, {"x", x}}, {}};
  for (std::int64_t rank = 0; rank < data * y * x; ++rank)
    mesh.ranks.push_back(Rank(static_cast<std::size_t>(rank)));
  return mesh;
}

/// The digests of the parts that a rank owns.
inline Digests owned_digests(const program::Program& program, const BufferBytes& bytes_of) {
  Digests digests;
  for (const StateTensor& tensor : state_of(program)) {
    const program::Buffer& buffer = *tensor.buffer;
    if (tensor.is_owner && !tensor.held.is_empty())
      digests[buffer.name] = digest_of(buffer.name, buffer.dtype, buffer.global, tensor.held,
                                       tensor.memory, bytes_of(buffer));
  }
  return digests;
}

class SmallState {
 public:
  /// Every element of every tensor is a function of its place and of `step`.
  SmallState(const Mesh& mesh, std::int64_t step) : mesh_(mesh) {
    const AxisId y(1), x(2);
    // Two cuts of one dim that leave padding state their strides.
    const std::int64_t inner = mesh.axes[2].size,
                       rows = (5 + mesh.axes[1].size * inner - 1) / (mesh.axes[1].size * inner);
    using program::BufferRole;
    for (std::size_t rank = 0; rank < mesh.ranks.size(); ++rank) {
      program::Program program;
      program.rank = Rank(rank);
      program.meshes = {mesh};
      add(program, "w", DType::f32, {7, 12}, {{{y, {}}}, {{x, {}}}}, BufferRole::parameter);
      add(program, "w.m", DType::f32, {7, 12}, {{{y, {}}}, {{x, {}}}}, BufferRole::moment);
      add(program, "bias", DType::f64, {12}, {}, BufferRole::parameter);
      add(program, "odd", DType::f32, {5, 2, 3}, {{{y, rows * inner}, {x, rows}}},
          BufferRole::parameter);
      add(program, "updates", DType::i64, {}, {}, BufferRole::counter);
      add(program, "scratch", DType::f32, {3}, {}, BufferRole::workspace);
      programs_.push_back(program);
      memory_.emplace_back();
      for (const program::Buffer& buffer : programs_.back().buffers)
        memory_.back()[buffer.name] = local(buffer, rank, step);
    }
  }

  std::size_t num_ranks() const { return programs_.size(); }
  const program::Program& program(std::size_t rank) const { return programs_[rank]; }
  BufferBytes bytes_of(std::size_t rank) {
    return [this, rank](const program::Buffer& b) { return std::span(memory_[rank].at(b.name)); };
  }
  /// What a fresh process has: anything.
  void scramble() {
    for (auto& rank : memory_)
      for (auto& [name, bytes] : rank) std::fill(bytes.begin(), bytes.end(), std::byte{0xA5});
  }
  /// True if the state, padding included, is that of a step.
  bool is_of(std::int64_t step) const {
    for (std::size_t rank = 0; rank < num_ranks(); ++rank)
      for (const StateTensor& tensor : state_of(programs_[rank]))
        if (memory_[rank].at(tensor.buffer->name) != local(*tensor.buffer, rank, step))
          return false;
    return true;
  }

 private:
  static void add(program::Program& program, const std::string& name, DType dtype, Shape shape,
                  std::vector<std::vector<op::Cut>> dims, program::BufferRole role) {
    program::Buffer buffer;
    buffer.name = name;
    buffer.dtype = dtype;
    buffer.global = std::move(shape);
    buffer.sharding.mesh = MeshId(0);
    buffer.sharding.dims = std::move(dims);
    buffer.role = role;
    buffer.region = program::Region::persistent;
    program.buffers.push_back(buffer);
  }

  std::vector<std::byte> local(const program::Buffer& buffer, std::size_t rank,
                               std::int64_t step) const {
    const std::int64_t element = size_bytes(buffer.dtype), count = buffer.global.elements();
    std::vector<std::byte> global(static_cast<std::size_t>(count * element));
    for (std::int64_t i = 0; i < count; ++i) {
      // One bit of the exponent is off in floats of either size, so that all numbers are finite.
      constexpr std::int64_t exponents = (std::int64_t{1} << 62) | (std::int64_t{1} << 30);
      const std::int64_t bits = ((step * 1000003 + i * 7919) * 2654435761 + 1) & ~exponents;
      std::memcpy(global.data() + i * element, &bits, static_cast<std::size_t>(element));
    }
    const Box memory = memory_box(mesh_, buffer, rank);
    std::vector<std::byte> mine(static_cast<std::size_t>(memory.elements() * element));
    copy_box(held_box(mesh_, buffer, rank), whole_box(buffer.global), global, memory, mine,
             element);
    return mine;
  }

  Mesh mesh_;
  std::vector<program::Program> programs_;
  std::vector<std::map<std::string, std::vector<std::byte>>> memory_;
};

}  // namespace fourfold::checkpoint
