// Mutants in which a row is missing, is there twice, or is another one.
#include <algorithm>

#include "program/builder.h"
#include "verify/mutant_places.h"

namespace fourfold::verify {
namespace {

const Compute* compute_of(const Program& program, std::size_t at) {
  return std::get_if<Compute>(&program.instructions[at].what);
}

std::optional<Change> erase_row(const Program& program, std::size_t at, Draws&) {
  if (compute_of(program, at) == nullptr) return std::nullopt;
  return [](const Spot& spot) {
    erase_instruction(spot.program, spot.at);
    return true;
  };
}

std::optional<Change> double_row(const Program& program, std::size_t at, Draws&) {
  if (compute_of(program, at) == nullptr) return std::nullopt;
  return [](const Spot& spot) {
    const Instruction again = spot.instruction();
    insert_instruction(spot.program, spot.at + 1, again);
    return true;
  };
}

std::optional<Change> flip_accumulate(const Program& program, std::size_t at, Draws&) {
  const Compute* what = compute_of(program, at);
  if (what == nullptr || !op::can_accumulate(what->op)) return std::nullopt;
  return [](const Spot& spot) {
    auto* compute = spot.kind<Compute>();
    if (compute == nullptr) return false;
    op::Op flipped = op::with_accumulate(compute->op, true);
    if (flipped == compute->op) flipped = op::with_accumulate(compute->op, false);
    if (flipped == compute->op) return false;
    compute->op = std::move(flipped);
    return true;
  };
}

/// A sum of two becomes a copy of one of them.
std::optional<Change> drop_term(const Program& program, std::size_t at, Draws& random) {
  const Compute* what = compute_of(program, at);
  if (what == nullptr || !op::is_sum_of_two(what->op)) return std::nullopt;
  return [term = random() % 2](const Spot& spot) {
    const auto* compute = spot.kind<Compute>();
    if (compute == nullptr || compute->slices.size() != 3) return false;
    const Copy copy{compute->slices[term], compute->slices[2]};
    // In place, the term that stays is there.
    if (copy.from == copy.to)
      erase_instruction(spot.program, spot.at);
    else
      spot.instruction().what = copy;
    return true;
  };
}

/// A sum of two whose terms are one.
std::optional<Change> repeat_term(const Program& program, std::size_t at, Draws& random) {
  const Compute* what = compute_of(program, at);
  if (what == nullptr || !op::is_sum_of_two(what->op)) return std::nullopt;
  return [term = random() % 2](const Spot& spot) {
    auto* compute = spot.kind<Compute>();
    if (compute == nullptr || compute->slices.size() != 3) return false;
    compute->slices[1 - term] = compute->slices[term];
    return true;
  };
}

/// A row changes places with the next one of its stream.
std::optional<Change> exchange_rows(const Program& program, std::size_t at, Draws&) {
  if (compute_of(program, at) == nullptr) return std::nullopt;
  return [](const Spot& spot) {
    const std::size_t end = spot.program.tasks[task_of(spot.program, spot.at)].end;
    for (std::size_t i = spot.at + 1; i < end; ++i) {
      Instruction& next = spot.program.instructions[i];
      if (next.stream != spot.instruction().stream) continue;
      if (!std::holds_alternative<Compute>(next.what)) return false;
      std::swap(spot.instruction().what, next.what);
      return true;
    }
    return false;
  };
}

/// A row is carried out in the task of another micro-batch, at its end.
std::optional<Change> move_row(const Program& program, std::size_t at, Draws& random) {
  if (compute_of(program, at) == nullptr) return std::nullopt;
  const std::size_t task = task_of(program, at);
  const std::size_t later = program.tasks[task].end - at;
  if (later < 3) return std::nullopt;
  return [by = 2 + random() % std::min<std::size_t>(later - 2, 12)](const Spot& spot) {
    const std::size_t end = spot.program.tasks[task_of(spot.program, spot.at)].end;
    if (spot.at + by >= end) return false;
    const Instruction moved = spot.instruction();
    erase_instruction(spot.program, spot.at);
    insert_instruction(spot.program, spot.at + by - 1, moved);
    return true;
  };
}

/// True if two rows take the same operands: roles and kinds of elements, one after another.
bool takes_same(const op::Op& one, const op::Op& other) {
  const op::Operands a = op::operands(one), b = op::operands(other);
  return std::ranges::equal(a, b, [](const op::Operand& x, const op::Operand& y) {
    return x.role == y.role && x.element == y.element;
  });
}

/// Another row of the table with the same operands and of the same shapes, its attributes as they
/// are by default.
std::optional<Change> other_row(const Program& program, std::size_t at, Draws& random) {
  const Compute* what = compute_of(program, at);
  if (what == nullptr || !op::stands_for_itself(what->op)) return std::nullopt;
  const std::vector<Shape> shapes = program.operand_shapes(*what);
  const op::Operands operands = op::operands(what->op);
  const auto num_reads =
      static_cast<std::size_t>(std::ranges::count(operands, op::Role::read, &op::Operand::role));
  const std::span reads(shapes.data(), num_reads);
  std::vector<op::Op> others;
  for (const op::Op& row : op::all_rows()) {
    if (op::name(row) == op::name(what->op) || op::name(row) == "fused" ||
        !takes_same(row, what->op))
      continue;
    const op::Outputs outputs = op::judge_outputs(row, reads);
    if (outputs.mistake() != nullptr) continue;
    if (std::ranges::equal(outputs.shapes(), std::span(shapes).subspan(num_reads)))
      others.push_back(row);
  }
  if (others.empty()) return std::nullopt;
  return [row = pick_of(others, random)](const Spot& spot) {
    auto* compute = spot.kind<Compute>();
    if (compute == nullptr || !takes_same(row, compute->op)) return false;
    compute->op = row;
    compute->implementation = "reference";
    return true;
  };
}

/// Zeros in the place of the one value that a row makes.
std::optional<Change> make_zeros(const Program& program, std::size_t at, Draws&) {
  const Compute* what = compute_of(program, at);
  if (what == nullptr || what->op.is<op::Fill>() ||
      op::operands(what->op).back().role != op::Role::write ||
      is_block(program, what->slices.back().buffer))
    return std::nullopt;
  const Buffer& made = program.buffer(what->slices.back().buffer);
  const bool is_of_type =
      made.dtype == DType::f64 || made.dtype == DType::f32 || made.dtype == DType::bf16;
  if (!is_of_type) return std::nullopt;
  return [](const Spot& spot) {
    const auto* compute = spot.kind<Compute>();
    if (compute == nullptr) return false;
    const Slice to = compute->slices.back();
    const DType dtype = spot.program.buffer(to.buffer).dtype;
    Compute zeros{
        op::Fill{0, spot.program.view_shape(to, dtype)}, dtype, {to}, std::nullopt, "reference"};
    spot.instruction().what = std::move(zeros);
    return true;
  };
}

/// A copy, pack or unpack.
bool is_move(const Instruction& instruction) {
  return std::holds_alternative<Copy>(instruction.what) ||
         std::holds_alternative<Pack>(instruction.what) ||
         std::holds_alternative<Unpack>(instruction.what);
}

std::optional<Change> erase_move(const Program& program, std::size_t at, Draws&) {
  if (!is_move(program.instructions[at])) return std::nullopt;
  return [](const Spot& spot) {
    erase_instruction(spot.program, spot.at);
    return true;
  };
}

std::optional<Change> plain_copy(const Program& program, std::size_t at, Draws&) {
  const Instruction& instruction = program.instructions[at];
  if (!is_move(instruction) || std::holds_alternative<Copy>(instruction.what)) return std::nullopt;
  return [](const Spot& spot) {
    const std::vector<Access> list = touched(spot.instruction());
    if (list.size() != 2 || list[0].slice.bytes() != list[1].slice.bytes()) return false;
    spot.instruction().what = Copy{list[0].slice, list[1].slice};
    return true;
  };
}

}  // namespace

void add_row_mutants(std::vector<MutantKind>& list) {
  list.push_back({"a row left out", erase_row});
  list.push_back({"a row twice", double_row});
  list.push_back({"a sum begun anew, or not", flip_accumulate});
  list.push_back({"a term of a sum left out", drop_term});
  list.push_back({"a term of a sum twice, the other not", repeat_term});
  list.push_back({"two rows exchanged", exchange_rows});
  list.push_back({"a row moved to a later place", move_row});
  list.push_back({"another row of the table", other_row});
  list.push_back({"zeros in the place of a value", make_zeros});
  list.push_back({"a copy, pack or unpack left out", erase_move});
  list.push_back({"a pack or unpack that copies", plain_copy});
}

}  // namespace fourfold::verify
