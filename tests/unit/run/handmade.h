// Programs written by hand for the tests of run/ and train/: one rank, buffers laid out one after
// the other. Not checked by the verifier.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "op/blocks.h"
#include "program/program.h"

namespace fourfold::run {

class Handmade {
 public:
  using Region = program::Region;
  using Role = program::BufferRole;

  explicit Handmade(op::ProgramKind kind) {
    program_.kind = kind;
    program_.meshes = {{"all", {{"data", 1}}, {Rank(0)}}};
    program_.groups = {{"data", MeshId(0), {AxisId(0)}, {Rank(0)}}};
  }

  /// The stream of that name, made when there is none.
  program::StreamId stream(const std::string& name) {
    for (std::size_t i = 0; i < program_.streams.size(); ++i)
      if (program_.streams[i] == name) return program::StreamId(i);
    program_.streams.push_back(name);
    return program::StreamId(program_.streams.size() - 1);
  }

  program::BufferId buffer(const std::string& name, DType dtype, const Shape& shape, Region region,
                           Role role = Role::activation, bool two_by_parity = false) {
    program::Buffer buffer;
    buffer.name = name;
    buffer.dtype = dtype;
    buffer.global = shape;
    buffer.region = region;
    buffer.role = role;
    buffer.two_by_parity = two_by_parity;
    buffer.size_bytes = shape.elements() * size_bytes(dtype);
    std::int64_t& used =
        region == Region::persistent ? program_.persistent_bytes : program_.transient_bytes;
    buffer.offset_bytes = used;
    used += (buffer.space_bytes() + 63) / 64 * 64;
    program_.buffers.push_back(std::move(buffer));
    return program::BufferId(program_.buffers.size() - 1);
  }
  program::BufferId floats(const std::string& name, std::int64_t count,
                           Region region = Region::transient) {
    return buffer(name, DType::f32, {count}, region);
  }
  /// A buffer for the samples that are fed, `length` integers each, and an input of its name; sets
  /// Program::feeds.
  program::BufferId tokens(const std::string& name, const program::Feeds& feeds,
                           std::int64_t length) {
    program_.feeds = feeds;
    program_.inputs.push_back({name, DType::i32, {length}});
    return buffer(name, DType::i32, {feeds.count, length}, Region::transient, Role::feed);
  }
  /// Brings the input of the buffer's name.
  program::Feed feed(program::BufferId to, std::int64_t micro = 0) const {
    const auto place = std::ranges::find(program_.inputs, program_.buffer(to).name, &Input::name);
    return {program::InputId(static_cast<std::size_t>(place - program_.inputs.begin())), micro,
            whole(to)};
  }

  program::BufferId step_block() {
    return buffer("step", DType::u64, {sizeof(op::StepBlock) / 8}, Region::persistent,
                  Role::step_block, true);
  }
  program::BufferId result_block() {
    return buffer("result", DType::u64, {sizeof(op::ResultBlock) / 8}, Region::persistent,
                  Role::result_block, true);
  }
  /// One field, "step.lr", of a block.
  static program::Slice field(program::BufferId block, std::string_view name) {
    const op::BlockField field = op::find_block_field(name).value();
    return {block, static_cast<std::int64_t>(field.offset_bytes), 1, size_bytes(field.dtype), 0};
  }

  program::Slice whole(program::BufferId id) const { return program_.whole(id); }
  program::EventId event() { return program::EventId(program_.num_events++); }

  /// Index of the instruction.
  std::size_t add(const std::string& stream_name, program::What what) {
    program_.instructions.push_back({stream(stream_name), std::move(what)});
    return program_.instructions.size() - 1;
  }
  std::size_t copy(const std::string& stream_name, program::BufferId from, program::BufferId to) {
    return add(stream_name, program::Copy{whole(from), whole(to)});
  }
  std::size_t compute(const op::Op& op, std::vector<program::Slice> slices,
                      const std::string& implementation = "reference", DType dtype = DType::f32) {
    return add("math",
               program::Compute{op, dtype, std::move(slices), std::nullopt, implementation});
  }

  program::Program program() const { return program_; }
  program::Program& edit() { return program_; }
  program::Bundle bundle() const { return bundle_of({program_}); }

  static program::Bundle bundle_of(std::vector<program::Program> programs) {
    program::Bundle bundle{std::move(programs), 0, 0};
    for (const program::Program& p : bundle.programs) {
      bundle.persistent_bytes = std::max(bundle.persistent_bytes, p.persistent_bytes);
      bundle.transient_bytes = std::max(bundle.transient_bytes, p.transient_bytes);
    }
    return bundle;
  }

 private:
  program::Program program_;
};

/// The elements of a buffer's bytes.
template <class T>
std::span<T> as(std::span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

}  // namespace fourfold::run
