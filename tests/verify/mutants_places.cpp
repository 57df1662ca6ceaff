#include <algorithm>
#include <set>
#include <tuple>

#include "base/format.h"
#include "op/blocks.h"
#include "program/text.h"
#include "verify/mutant_places.h"

namespace fourfold::verify {
namespace {

/// What an instruction does to which buffers: its name, stream and tag, and their names without
/// slots.
std::string text_of(const Program& program, const Instruction& instruction) {
  std::string text(name(instruction));
  text += " " + program.streams[instruction.stream.index()];
  std::visit(
      [&]<class Kind>(const Kind& what) {
        if constexpr (requires { what.tag; }) text += format(" tag {}", what.tag);
      },
      instruction.what);
  for (const Access& access : touched(instruction))
    text += format(" {}", split_slot(program.buffer(access.slice.buffer).name).first);
  return text;
}

bool is_task(const Task& task, const Landmark& landmark) {
  return task.kind == landmark.task && task.micro == landmark.micro;
}

}  // namespace

std::pair<std::string_view, std::string_view> split_slot(std::string_view name) {
  const std::size_t mark = name.find('#');
  if (mark == std::string_view::npos) return {name, {}};
  std::size_t end = mark + 1;
  while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
  return {name.substr(0, mark), name.substr(mark, end - mark)};
}

std::size_t task_of(const Program& program, std::size_t at) {
  std::size_t task = 0;
  while (task + 1 < program.tasks.size() && program.tasks[task].end <= at) ++task;
  return task;
}

Landmark landmark_of(const Program& program, std::size_t at) {
  const std::size_t number = task_of(program, at);
  const Task& task = program.tasks[number];
  Landmark landmark{task.kind, task.micro, 0, text_of(program, program.instructions[at]), 0};
  for (std::size_t i = 0; i < number; ++i)
    landmark.of_task += is_task(program.tasks[i], landmark) ? 1U : 0U;
  for (std::size_t i = task.begin; i < at; ++i)
    landmark.turn += text_of(program, program.instructions[i]) == landmark.does ? 1U : 0U;
  return landmark;
}

std::optional<std::size_t> find(const Program& program, const Landmark& landmark) {
  std::size_t of_task = 0;
  for (const Task& task : program.tasks) {
    if (!is_task(task, landmark) || of_task++ != landmark.of_task) continue;
    std::size_t turn = 0;
    for (std::size_t i = task.begin; i < task.end; ++i)
      if (text_of(program, program.instructions[i]) == landmark.does && turn++ == landmark.turn)
        return i;
  }
  return std::nullopt;
}

std::optional<BufferId> Spot::find_buffer(std::string_view name) const {
  const auto [stem, of_name] = split_slot(name);
  if (!of_name.empty() && of_name == drawn_slot)
    if (const auto id = program.find_buffer(
            format("{}{}{}", stem, slot, name.substr(stem.size() + of_name.size()))))
      return id;
  return program.find_buffer(name);
}

std::optional<std::size_t> Spot::find_other(Landmark landmark) const {
  if (landmark.micro && landmark.micro == drawn_micro)
    landmark.micro = program.tasks[task_of(program, at)].micro;
  return find(program, landmark);
}

MutantKind everywhere(std::string name, Draw draw) {
  MutantKind kind{std::move(name), std::move(draw)};
  kind.is_everywhere = true;
  return kind;
}

NamedSlice named(const Program& program, const Slice& slice) {
  return {program.buffer(slice.buffer).name, slice};
}

std::optional<Slice> found(const Spot& spot, const NamedSlice& slice) {
  const auto id = spot.find_buffer(slice.buffer);
  if (!id) return std::nullopt;
  Slice here = slice.slice;
  here.buffer = *id;
  return here;
}

bool is_block(const Program& program, BufferId buffer) {
  const BufferRole role = program.buffer(buffer).role;
  return role == BufferRole::step_block || role == BufferRole::result_block;
}

bool are_alike(const Program& program, const Slice& one, const Slice& other) {
  const Buffer &a = program.buffer(one.buffer), &b = program.buffer(other.buffer);
  return !is_block(program, one.buffer) && !is_block(program, other.buffer) && a.dtype == b.dtype &&
         one.bytes() == other.bytes() &&
         program.view_shape(one, a.dtype) == program.view_shape(other, b.dtype);
}

std::vector<Access> touched(const Instruction& instruction) {
  std::vector<Access> list = accesses(instruction);
  const auto* compute = std::get_if<Compute>(&instruction.what);
  if (compute != nullptr) list.resize(std::min(list.size(), compute->slices.size()));
  return list;
}

Slice* touched_slice(Instruction& instruction, std::size_t index) {
  Slice* wanted = nullptr;
  std::size_t count = 0;
  for_each_slice(instruction, [&](Slice& slice) {
    if (count++ == index) wanted = &slice;
  });
  return wanted;
}

std::vector<Slice> others_like(const Program& program, std::size_t at, const Slice& slice) {
  using Key = std::tuple<std::size_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::set<Key> seen;
  std::vector<Slice> list;
  const auto add = [&](const Slice& other) {
    if (other == slice || !are_alike(program, other, slice)) return;
    if (seen.insert({other.buffer.index(), other.offset_bytes, other.rows, other.row_bytes,
                     other.pitch_bytes})
            .second)
      list.push_back(other);
  };
  for (std::size_t i = 0; i < at; ++i)
    for (const Access& access : touched(program.instructions[i]))
      if (access.role != op::Role::read) add(access.slice);
  for (std::size_t i = 0; i < program.buffers.size(); ++i)
    if (program.buffers[i].region == Region::persistent) add(program.whole(BufferId(i)));
  return list;
}

Change replaced(std::size_t index, NamedSlice by) {
  return [index, by = std::move(by)](const Spot& spot) {
    const auto other = found(spot, by);
    Slice* slice = touched_slice(spot.instruction(), index);
    if (!other || slice == nullptr || *other == *slice) return false;
    *slice = *other;
    return true;
  };
}

}  // namespace fourfold::verify
