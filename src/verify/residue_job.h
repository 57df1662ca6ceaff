// A job with all that running it over residues needs, worked out once: the programs of each rank,
// what stands on each stream, who meets whom, and every row with the shapes of its operands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/meetings.h"
#include "verify/language.h"

namespace fourfold::verify {

/// A row that stands for itself, and what it touches.
struct ResidueRow {
  struct Operand {
    Slice slice;
    Shape shape;
    DType type;
    op::Role role;
  };
  op::Op op;
  std::vector<Operand> operands;
};

/// One program of one rank.
struct ResidueProgram {
  const Program* program = nullptr;
  std::vector<std::vector<std::uint32_t>> streams;  // instructions of each, in order
  std::vector<std::uint32_t> communicators;         // of each group
  std::vector<ResidueRow> rows;                     // of all computations, in order
  std::vector<std::uint32_t> first_row;             // of each instruction, and the end

  std::span<const ResidueRow> rows_of(std::size_t instruction) const {
    return std::span(rows).subspan(first_row[instruction],
                                   first_row[instruction + 1] - first_row[instruction]);
  }
};

/// All ranks of a job. Requires what check_structure proves of each program, and that all bundles
/// have the same programs.
class ResidueJob {
 public:
  explicit ResidueJob(const Job& job);
  ResidueJob(const ResidueJob&) = delete;
  ResidueJob& operator=(const ResidueJob&) = delete;

  std::size_t num_ranks() const { return bundles_.size(); }
  const Bundle& bundle(std::size_t rank) const { return bundles_[rank]; }
  /// The place of the program of this kind in each bundle; nothing where there is none.
  std::optional<std::size_t> place_of(op::ProgramKind kind) const;
  const Program& program(std::size_t rank, std::size_t place) const {
    return bundles_[rank].programs[place];
  }
  const ResidueProgram& prepared(std::size_t rank, std::size_t place) const {
    return prepared_[rank][place];
  }
  const Communicators& communicators() const { return communicators_; }

 private:
  std::vector<Bundle> bundles_;
  std::vector<std::vector<ResidueProgram>> prepared_;  // by rank and place
  Communicators communicators_;
};

/// The type of a field of a block, and else that of the buffer.
DType type_of(const Program& program, const Slice& slice);

}  // namespace fourfold::verify
