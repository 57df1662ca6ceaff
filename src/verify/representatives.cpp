#include "verify/representatives.h"

#include <optional>
#include <set>
#include <string>
#include <type_traits>

#include "base/format.h"

namespace fourfold::verify {
namespace {

/// What binding can see of a slice.
std::string kind_of(const Program& program, const Slice& slice) {
  const Buffer& buffer = program.buffer(slice.buffer);
  const Mesh& mesh = program.meshes[buffer.sharding.mesh.index()];
  return format("{} {} {}{} {} {} {}; ", op::to_string(buffer.global, buffer.sharding, mesh),
                mesh.name, fourfold::to_string(buffer.dtype),
                buffer.blocked
                    ? format(" blocked {} {}", buffer.blocked->dim, buffer.blocked->axis.index())
                    : "",
                slice.rows, slice.row_bytes, slice.pitch_bytes);
}

class Choice {
 public:
  explicit Choice(const Program& program) : program_(program) {}

  bool takes(const Instruction& instruction) {
    if (std::holds_alternative<Feed>(instruction.what) ||
        std::holds_alternative<Send>(instruction.what) ||
        std::holds_alternative<Recv>(instruction.what))
      return true;
    if (const auto* gather = std::get_if<AllGather>(&instruction.what)) {
      bool in_place = false;
      for_each_tensor(*gather, [&](const Slice& from, const Slice& to) {
        in_place = in_place || from.buffer == to.buffer;
      });
      return in_place && is_new(instruction, {});
    }
    if (std::holds_alternative<Copy>(instruction.what)) return is_new(instruction, {});
    const auto* compute = std::get_if<Compute>(&instruction.what);
    if (compute == nullptr) return false;
    std::string told = is_update(compute->op) ? "updates " : "";
    op::for_each_place(compute->op, [&]<class T>(const op::Place& place, const T& attribute) {
      if (!place.differs_by_rank()) return;
      told += format("{} {} {}, ", static_cast<int>(place.told), place.operand, place.dim);
      if constexpr (std::is_same_v<T, op::SampleWindow>)
        told += format("chunk {}, ", attribute.chunk);
    });
    return !told.empty() && is_new(instruction, told);
  }

 private:
  bool is_new(const Instruction& instruction, const std::string& told) {
    std::string kind = format("{}: {}", name(instruction), told);
    for (const Access& access : accesses(instruction)) kind += kind_of(program_, access.slice);
    return seen_.insert(std::move(kind)).second;
  }

  const Program& program_;
  std::set<std::string> seen_;
};

/// All of a program but its instructions and tasks.
Program frame_of(const Program& program) {
  Program frame;
  frame.kind = program.kind;
  frame.rank = program.rank;
  frame.world = program.world;
  frame.meshes = program.meshes;
  frame.groups = program.groups;
  frame.streams = program.streams;
  frame.buffers = program.buffers;
  frame.persistent_bytes = program.persistent_bytes;
  frame.transient_bytes = program.transient_bytes;
  frame.inputs = program.inputs;
  frame.feeds = program.feeds;
  frame.reduce = program.reduce;
  frame.num_events = program.num_events;
  return frame;
}

void keep_used_buffers(Program& program) {
  std::vector<Buffer> all;
  all.swap(program.buffers);
  std::vector<std::optional<BufferId>> now(all.size());
  for (Instruction& instruction : program.instructions)
    for_each_slice(instruction, [&](Slice& slice) {
      auto& id = now[slice.buffer.index()];
      if (!id) {
        id = BufferId(program.buffers.size());
        program.buffers.push_back(std::move(all[slice.buffer.index()]));
      }
      slice.buffer = *id;
    });
}

}  // namespace

Bundle representatives(const Bundle& bundle) {
  Bundle result;
  result.persistent_bytes = bundle.persistent_bytes;
  result.transient_bytes = bundle.transient_bytes;
  for (const Program& program : bundle.programs) {
    Choice choice(program);
    Program chosen = frame_of(program);
    for (const Task& task : program.tasks) {
      const std::size_t begin = chosen.instructions.size();
      for (std::size_t i = task.begin; i < task.end; ++i)
        if (choice.takes(program.instructions[i]))
          chosen.instructions.push_back(program.instructions[i]);
      chosen.tasks.push_back({task.kind, task.micro, begin, chosen.instructions.size()});
    }
    keep_used_buffers(chosen);
    result.programs.push_back(std::move(chosen));
  }
  return result;
}

}  // namespace fourfold::verify
