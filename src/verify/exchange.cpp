#include "verify/exchange.h"

#include <algorithm>
#include <iterator>
#include <utility>

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
                   mesh.axes[buffer.blocked->axis.index()].name, buffer.blocked->share);
  if (slice == program.whole(slice.buffer)) return text;
  if (with_offset) text += format(" from {}", slice.offset_bytes);
  return text + format(" {} x {} bytes, {} apart", slice.rows, slice.row_bytes, slice.pitch_bytes);
}

template <class Kind>
std::string terms_text(const Program& program, const Kind& what) {
  std::string text(Kind::name);
  if constexpr (requires { what.reduction; })
    text += what.reduction == op::Reduction::sum ? " sum" : " max";
  std::string_view before = " of ";
  for_each_tensor(what, [&](const Slice& from, const Slice& to) {
    const bool own_share = &from != &to && from.buffer == to.buffer;
    text += format("{}{}", std::exchange(before, ", "), side_text(program, from, !own_share));
    if (&from != &to) text += format(" to {}", side_text(program, to, true));
  });
  return text;
}

/// The part of a tensor that a slice holds, in indices over all ranks.
std::string window_text(Claims& claims, const Slice& slice) {
  const Program& program = claims.program();
  const Buffer& buffer = program.buffer(slice.buffer);
  const bool is_block =
      buffer.role == BufferRole::step_block || buffer.role == BufferRole::result_block;
  if (const auto dtype = slice_dtype(program, slice); is_block && dtype)  // a field is a scalar
    return format("[] of [] {}", fourfold::to_string(*dtype));
  const Shape local = program.local_shape(slice.buffer);
  const std::string tensor =
      format("{} {}", to_string(buffer.global), fourfold::to_string(buffer.dtype));
  // A range of one dim: all dims before it are rows, all after it lie within them.
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

Skeleton skeleton(const Program& program, Terms& terms) {
  Skeleton result{stops_of(program), {}, {}};
  result.collectives.resize(program.groups.size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    std::visit(
        [&](const auto& what) {
          if constexpr (requires { what.group; }) {
            result.collectives[what.group.index()].push_back(
                terms.number(terms_text(program, what)));
          } else if constexpr (requires { what.peer; }) {
            const Slice slice = accesses(program.instructions[i])[0].slice;
            const Task* task = task_of(program, i);
            result.messages.push_back({slice_dtype(program, slice).value_or(DType::u64),
                                       slice.bytes(), slice.buffer,
                                       task == nullptr ? std::nullopt : task->micro});
          }
        },
        program.instructions[i].what);
  if (!result.messages.empty()) {
    const std::vector<bool> shared = shared_messages(program);
    for (std::size_t i = 0; i < shared.size(); ++i) result.messages[i].is_shared = shared[i];
  }
  return result;
}

Exchange exchange(Claims& claims, Terms& terms, Communicators& communicators) {
  Exchange result{partners_of(claims.program(), communicators), {}};
  for (const Instruction& instruction : claims.program().instructions) {
    if (const auto* send = std::get_if<Send>(&instruction.what))
      result.windows.push_back(terms.number(window_text(claims, send->from)));
    if (const auto* recv = std::get_if<Recv>(&instruction.what))
      result.windows.push_back(terms.number(window_text(claims, recv->to)));
  }
  return result;
}

MeetingsView CheckedJob::meetings(std::size_t program) const {
  MeetingsView view;
  for (const PositionClass& some : classes) view.classes.push_back(&some.skeletons[program].stops);
  view.class_of = class_of;
  for (const std::vector<Exchange>& programs : exchanges)
    view.ranks.push_back(&programs[program].partners);
  view.communicators = &communicators;
  return view;
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
