// alias, read-only: what an instruction may write.
#include <algorithm>

#include "base/format.h"
#include "verify/rules.h"

namespace fourfold::verify {
namespace {

/// True if both slices are the same bytes in the same order.
bool same_range(const Program& program, const Slice& a, const Slice& b) {
  return address(program, a.buffer) + a.offset_bytes ==
             address(program, b.buffer) + b.offset_bytes &&
         a.rows == b.rows && a.row_bytes == b.row_bytes && a.pitch_bytes == b.pitch_bytes &&
         program.buffer(a.buffer).two_by_parity == program.buffer(b.buffer).two_by_parity;
}

/// True if it gathers the rows of a buffer, each of which one rank has updated, in their place
/// (rules update-once, part).
bool gathers_in_place(const Instruction& instruction, BufferId buffer) {
  const auto* gather = std::get_if<AllGather>(&instruction.what);
  if (gather == nullptr) return false;
  bool found = false;
  for_each_tensor(*gather, [&](const Slice& from, const Slice& to) {
    found = found || (from.buffer == buffer && to.buffer == buffer);
  });
  return found;
}

/// True if output `output` may take over the memory of read `read`.
bool may_alias(const Instruction& instruction, std::size_t output, std::size_t read) {
  if (const auto* gather = std::get_if<AllGather>(&instruction.what))
    return output == read + gather->from.size() &&
           gather->from[read].buffer == gather->to[read].buffer;
  const auto* compute = std::get_if<Compute>(&instruction.what);
  if (compute == nullptr) return false;
  const op::Operands operands = op::operands(compute->op);
  return output < operands.size() && operands[output].role == op::Role::write &&
         operands[output].may_alias == read;
}

void check_aliases(const Program& program, std::size_t index, const std::vector<Access>& list,
                   Report& report) {
  const Instruction& instruction = program.instructions[index];
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].role == op::Role::read) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (!overlap(program, list[i].slice, list[j].slice)) continue;
      const std::string& written = program.buffer(list[i].slice.buffer).name;
      const std::string& other = program.buffer(list[j].slice.buffer).name;
      if (list[j].role != op::Role::read || !may_alias(instruction, i, j))
        report.fault(
            "alias", index,
            format("{} shares bytes with {}, which the op does not allow", written, other));
      else if (!std::holds_alternative<AllGather>(instruction.what) &&
               !same_range(program, list[i].slice, list[j].slice))
        report.fault("alias", index, format("{} takes over only part of {}", written, other));
    }
  }
}

bool is_collective(const Instruction& instruction) {
  return std::visit([]<class Kind>(const Kind&) { return AnyCollective<Kind>; }, instruction.what);
}

/// True if an instruction makes a tensor out of nothing: the start of a run.
bool starts(const Instruction& instruction) {
  const auto* compute = std::get_if<Compute>(&instruction.what);
  return compute != nullptr && op::work_class(compute->op) == op::WorkClass::source;
}

bool updates_state(const Instruction& instruction, op::State state) {
  const auto* compute = std::get_if<Compute>(&instruction.what);
  return compute != nullptr && op::updates(compute->op, state);
}
bool updates_parameters(const Instruction& instruction) {
  return updates_state(instruction, op::State::weight);
}

/// True if it writes rounded copies beside their weights, or at the start of a run from them (rule
/// rounded).
bool rounds_weights(const Instruction& instruction, bool is_init) {
  const auto* compute = std::get_if<Compute>(&instruction.what);
  if (compute == nullptr) return false;
  const auto rounds = [&](const op::Piece& piece) {
    return is_init ? op::is_rounding(piece.op)
                   : op::operand_of(piece.op, op::State::rounded).has_value();
  };
  return std::ranges::all_of(op::pieces(compute->op), rounds);
}

bool may_write(const Instruction& instruction, BufferId buffer, BufferRole role, bool is_init,
               bool updates) {
  if (role == BufferRole::step_block) return false;
  if (role == BufferRole::rounded) return rounds_weights(instruction, is_init);
  if (!is_learned(role) && role != BufferRole::counter) return true;
  if (is_init)
    return starts(instruction) || std::holds_alternative<Copy>(instruction.what) ||
           is_collective(instruction);
  if (role == BufferRole::counter)
    return updates_state(instruction, op::State::counter) ||
           updates_state(instruction, op::State::non_finite);
  if (role == BufferRole::average) return updates_state(instruction, op::State::average);
  return updates && (updates_parameters(instruction) || gathers_in_place(instruction, buffer));
}

}  // namespace

void check_writes(const Program& program, Report& report) {
  const bool is_init = program.kind == op::ProgramKind::init;
  const bool updates =
      std::any_of(program.instructions.begin(), program.instructions.end(), updates_parameters);
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const std::vector<Access> list = accesses(program.instructions[i]);
    check_aliases(program, i, list, report);
    for (const Access& access : list) {
      const Buffer& buffer = program.buffer(access.slice.buffer);
      if (access.role != op::Role::read &&
          !may_write(program.instructions[i], access.slice.buffer, buffer.role, is_init, updates))
        report.fault("read-only", i,
                     format("{} is a {}, which this instruction may not write here", buffer.name,
                            to_string(buffer.role)));
    }
  }
}

}  // namespace fourfold::verify
