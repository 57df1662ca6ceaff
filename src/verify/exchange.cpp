#include "verify/exchange.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "program/text.h"
#include "verify/box.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

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
  std::string text(to_string(what.kind));
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

/// The part of a tensor that a slice holds, in indices over all ranks; rule layout sees to it that
/// it is a box.
std::string window_text(Claims& claims, const Slice& slice) {
  const Program& program = claims.program();
  const Buffer& buffer = program.buffer(slice.buffer);
  const bool is_block =
      buffer.role == BufferRole::step_block || buffer.role == BufferRole::result_block;
  if (const auto dtype = slice_dtype(program, slice); is_block && dtype)  // a field is a scalar
    return format("[] of [] {}", fourfold::to_string(*dtype));
  const std::string tensor =
      format("{} {}", to_string(buffer.global), fourfold::to_string(buffer.dtype));
  const auto box = is_block ? std::nullopt : box_of(program, slice);
  if (!box)
    return format("{} x {} bytes from {}, {} apart, of {}", slice.rows, slice.row_bytes,
                  slice.offset_bytes, slice.pitch_bytes, tensor);
  std::string text;
  for (std::size_t dim = 0; dim < box->first.size(); ++dim) {
    const std::int64_t first = claims.first(slice.buffer, dim) + box->first[dim];
    text += format("{}{}:{}", dim == 0 ? "" : ", ", first, first + box->count[dim]);
  }
  return format("[{}] of {}", text, tensor);
}

/// The terms of windows, each of which most micro-batches have.
class Windows {
 public:
  Windows(Claims& claims, Terms& terms) : claims_(claims), terms_(terms) {}

  std::uint32_t number(const Slice& slice) {
    const auto [place, is_new] = known_.try_emplace(
        {slice.buffer, slice.offset_bytes, slice.rows, slice.row_bytes, slice.pitch_bytes}, 0);
    if (is_new) place->second = terms_.number(window_text(claims_, slice));
    return place->second;
  }

 private:
  Claims& claims_;
  Terms& terms_;
  std::map<std::tuple<BufferId, std::int64_t, std::int64_t, std::int64_t, std::int64_t>,
           std::uint32_t>
      known_;
};

}  // namespace

std::uint32_t Terms::number(std::string text) {
  const auto [place, inserted] =
      numbers_.try_emplace(std::move(text), static_cast<std::uint32_t>(texts_.size()));
  if (inserted) texts_.push_back(&place->first);
  return place->second;
}

Skeleton skeleton(const Program& program, bool has_messages, Terms& terms) {
  Skeleton result{stops_of(program), {}, {}, {}};
  if (has_messages) result.values = values_of(program);
  result.collectives.resize(program.groups.size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i)
    std::visit(
        [&](const auto& what) {
          if constexpr (requires { what.group; }) {
            result.collectives[what.group.index()].push_back(
                terms.number(format("{} on stream {}", terms_text(program, what),
                                    program.streams[program.instructions[i].stream.index()])));
          } else if constexpr (requires { what.peer; }) {
            const Slice slice = accesses(program.instructions[i])[0].slice;
            result.messages.push_back(
                {slice_dtype(program, slice).value_or(DType::u64), slice.bytes()});
          }
        },
        program.instructions[i].what);
  return result;
}

Exchange exchange(Claims& claims, Terms& terms, Communicators& communicators) {
  Exchange result{partners_of(claims.program(), communicators), {}};
  Windows windows(claims, terms);
  for (const Instruction& instruction : claims.program().instructions) {
    if (const auto* send = std::get_if<Send>(&instruction.what))
      result.windows.push_back(windows.number(send->from));
    if (const auto* recv = std::get_if<Recv>(&instruction.what))
      result.windows.push_back(windows.number(recv->to));
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
  return format("rank {}: {}", rank,
                place_text(classes[class_of[rank]].bundle->programs[program], instruction));
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
