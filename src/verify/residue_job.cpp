#include "verify/residue_job.h"

#include "verify/rules.h"

namespace fourfold::verify {
namespace {

void add_rows(const Program& program, const Compute& compute, std::vector<ResidueRow>& rows) {
  for_each_piece(compute, [&](const Compute& piece) {
    ResidueRow& row = rows.emplace_back(ResidueRow{piece.op, {}});
    const op::Operands operands = op::operands(piece.op);
    const std::vector<Shape> shapes = program.operand_shapes(piece);
    for (std::size_t i = 0; i < operands.size(); ++i)
      row.operands.push_back({piece.slices[i], shapes[i],
                              op::element_dtype(operands[i].element, piece.dtype),
                              operands[i].role});
  });
}

ResidueProgram prepare(const Program& program, Communicators& communicators) {
  ResidueProgram made{&program, {}, partners_of(program, communicators).groups, {}, {}};
  made.streams.resize(program.streams.size());
  for (std::size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    made.streams[instruction.stream.index()].push_back(static_cast<std::uint32_t>(i));
    made.first_row.push_back(static_cast<std::uint32_t>(made.rows.size()));
    if (const auto* compute = std::get_if<Compute>(&instruction.what))
      add_rows(program, *compute, made.rows);
  }
  made.first_row.push_back(static_cast<std::uint32_t>(made.rows.size()));
  return made;
}

}  // namespace

ResidueJob::ResidueJob(const Job& job) {
  bundles_.reserve(job.ranks.size());
  for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
    bundles_.push_back(program::bundle_of(job, Rank(rank)));
  for (const Bundle& bundle : bundles_) {
    std::vector<ResidueProgram>& programs = prepared_.emplace_back();
    for (const Program& program : bundle.programs)
      programs.push_back(prepare(program, communicators_));
  }
}

std::optional<std::size_t> ResidueJob::place_of(op::ProgramKind kind) const {
  const std::vector<Program>& programs = bundles_.front().programs;
  for (std::size_t place = 0; place < programs.size(); ++place)
    if (programs[place].kind == kind) return place;
  return std::nullopt;
}

DType type_of(const Program& program, const Slice& slice) {
  return slice_dtype(program, slice).value_or(program.buffer(slice.buffer).dtype);
}

}  // namespace fourfold::verify
