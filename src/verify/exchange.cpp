#include "verify/exchange.h"

#include <algorithm>
#include <iterator>

#include "base/format.h"
#include "program/text.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

/// The task of an instruction where tasks are as rule `tasks` wants them.
const Task* task_of(const Program& program, std::size_t instruction) {
  const auto behind = std::ranges::upper_bound(program.tasks, instruction, {}, &Task::begin);
  if (behind == program.tasks.begin()) return nullptr;
  const Task& task = *std::prev(behind);
  return instruction < task.end ? &task : nullptr;
}

/// "[4 (z), 8] blocked 1 y f32, 64 B": what the members of a collective agree on about a slice. An
/// own part in place lies elsewhere on each of them.
std::string side_text(const Program& program, const Slice& slice, bool with_offset) {
  const Buffer& buffer = program.buffer(slice.buffer);
  const Mesh& mesh = program.meshes[buffer.sharding.mesh.index()];
  std::string text = format("{} {} on {}", op::to_string(buffer.global, buffer.sharding, mesh),
                            fourfold::to_string(buffer.dtype), mesh.name);
  if (buffer.blocked)
    text += format(" blocked {} {} {}", buffer.blocked->dim,
                   mesh.axes[buffer.blocked->axis.index()].name, buffer.blocked->part);
  if (slice == program.whole(slice.buffer)) return text;
  if (with_offset) text += format(" from {}", slice.offset_bytes);
  return text + format(" {} x {} bytes, {} apart", slice.rows, slice.row_bytes, slice.pitch_bytes);
}

template <class Kind>
std::string terms_text(const Program& program, const Kind& what) {
  std::string text(Kind::name);
  if constexpr (requires { what.reduction; })
    text += what.reduction == op::Reduction::sum ? " sum" : " max";
  if constexpr (requires { what.data; }) {
    text += format(" of {}", side_text(program, what.data, true));
  } else {
    const bool in_place = what.from.buffer == what.to.buffer;
    text += format(" of {} to {}", side_text(program, what.from, !in_place),
                   side_text(program, what.to, true));
  }
  return text;
}

/// The part of a tensor that a slice holds, in indices over all ranks.
std::string part_text(Claims& claims, const Slice& slice) {
  const Program& program = claims.program();
  const Buffer& buffer = program.buffer(slice.buffer);
  const bool is_block =
      buffer.role == BufferRole::step_block || buffer.role == BufferRole::result_block;
  if (const auto dtype = slice_dtype(program, slice); is_block && dtype)  // a field is a scalar
    return format("[] of [] {}", fourfold::to_string(*dtype));
  const Shape local = program.local_shape(slice.buffer);
  const std::string tensor =
      format("{} {}", to_string(buffer.global), fourfold::to_string(buffer.dtype));
  // A range of one dim: all dims before it are rows, all behind it lie within them.
  for (std::size_t dim = 0; dim < std::max<std::size_t>(local.rank(), 1); ++dim) {
    const std::int64_t inner =
        local.rank() == 0 ? buffer.size_bytes
                          : local.elements(dim + 1, local.rank()) * size_bytes(buffer.dtype);
    const std::int64_t rows = local.elements(0, dim);
    const std::int64_t size = local.rank() == 0 ? 1 : local[dim];
    if (slice.rows != rows || slice.row_bytes % inner != 0 || slice.offset_bytes % inner != 0 ||
        (rows > 1 && slice.pitch_bytes != size * inner) || slice.offset_bytes >= size * inner)
      continue;
    std::string text;
    for (std::size_t i = 0; i < local.rank(); ++i) {
      const std::int64_t first =
          claims.first(slice.buffer, i) + (i == dim ? slice.offset_bytes / inner : 0);
      const std::int64_t count = i == dim ? slice.row_bytes / inner : local[i];
      text += format("{}{}:{}", i == 0 ? "" : ", ", first, first + count);
    }
    return format("[{}] of {}", text, tensor);
  }
  return format("{} x {} bytes from {}, {} apart, which are no range of a dim, of {}", slice.rows,
                slice.row_bytes, slice.offset_bytes, slice.pitch_bytes, tensor);
}

}  // namespace

std::uint32_t Terms::number(std::string text) {
  const auto [place, inserted] =
      numbers_.try_emplace(std::move(text), static_cast<std::uint32_t>(texts_.size()));
  if (inserted) texts_.push_back(&place->first);
  return place->second;
}

std::uint32_t Communicators::number(const Entry& entry) {
  const auto [place, inserted] =
      numbers_.try_emplace(entry, static_cast<std::uint32_t>(entries_.size()));
  if (inserted) entries_.push_back(&place->first);
  return place->second;
}

std::string Communicators::text(std::uint32_t number) const {
  std::string text = format("{}: ranks", entries_[number]->name);
  for (const Rank member : entries_[number]->members) text += format(" {}", member.index());
  return text;
}

Skeleton skeleton(const Program& program, Terms& terms) {
  Skeleton result;
  result.streams.resize(program.streams.size());
  result.collectives.resize(program.groups.size());
  result.record_streams.resize(program.num_events);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    std::vector<Stop>& stream = result.streams[instruction.stream.index()];
    const auto index = static_cast<std::uint32_t>(i);
    const auto add = [&](Stop::Kind kind, std::size_t id) {
      stream.push_back({kind, index, static_cast<std::uint32_t>(id)});
    };
    std::visit(
        [&]<class Kind>(const Kind& what) {
          if constexpr (requires { what.group; }) {
            add(Stop::Kind::collective, what.group.index());
            result.collectives[what.group.index()].push_back(
                {index, terms.number(terms_text(program, what))});
          } else if constexpr (requires { what.peer; }) {
            constexpr bool is_send = std::is_same_v<Kind, Send>;
            add(is_send ? Stop::Kind::send : Stop::Kind::recv, result.messages.size());
            const Slice slice = accesses(instruction)[0].slice;
            const Task* task = task_of(program, i);
            result.messages.push_back(
                {index, is_send, slice_dtype(program, slice).value_or(DType::u64), slice.bytes(),
                 slice.buffer, task == nullptr ? std::nullopt : task->micro});
          } else if constexpr (std::is_same_v<Kind, Record>) {
            add(Stop::Kind::record, what.event.index());
            result.record_streams[what.event.index()] =
                static_cast<std::uint32_t>(instruction.stream.index());
          } else if constexpr (std::is_same_v<Kind, Wait>) {
            add(Stop::Kind::wait, what.event.index());
          }
        },
        instruction.what);
  }
  if (!result.messages.empty()) {
    const std::vector<bool> shared = shared_messages(program);
    for (std::size_t i = 0; i < shared.size(); ++i) result.messages[i].is_shared = shared[i];
  }
  return result;
}

Exchange exchange(Claims& claims, Terms& terms, Communicators& communicators) {
  const Program& program = claims.program();
  Exchange result;
  for (const Group& group : program.groups)
    result.groups.push_back(communicators.number(
        {format("{} of mesh {}", group.name, program.meshes[group.mesh.index()].name),
         group.members}));
  for (const Instruction& instruction : program.instructions) {
    if (const auto* send = std::get_if<Send>(&instruction.what))
      result.messages.push_back(
          {send->peer, send->tag, terms.number(part_text(claims, send->from))});
    if (const auto* recv = std::get_if<Recv>(&instruction.what))
      result.messages.push_back({recv->peer, recv->tag, terms.number(part_text(claims, recv->to))});
  }
  return result;
}

std::string CheckedJob::place(std::size_t rank, std::size_t program,
                              std::size_t instruction) const {
  const Program& of = classes[class_of[rank]].bundle->programs[program];
  const Task* task = task_of(of, instruction);
  return format("rank {}: {}: {}: instruction {} ({})", rank, of.name,
                task == nullptr ? "outside of all tasks" : short_text(*task), instruction,
                short_text(of, of.instructions[instruction]));
}

std::string CheckedJob::short_place(std::size_t rank, std::size_t program,
                                    std::size_t instruction) const {
  const Program& of = classes[class_of[rank]].bundle->programs[program];
  return format("instruction {} ({})", instruction, short_text(of, of.instructions[instruction]));
}

Fault CheckedJob::fault(std::string_view rule, std::size_t rank, std::size_t program,
                        std::size_t instruction, std::string_view message) const {
  return {std::string(rule), instruction,
          format("{}: {}", place(rank, program, instruction), message), Rank(rank)};
}

}  // namespace fourfold::verify
