// A program with every address resolved, for both parities, so that issuing an instruction is a
// look-up. Kernels are filled in by the backend, on the thread that will call them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "kernels/kernel.h"
#include "program/program.h"
#include "run/arena.h"

namespace fourfold::run {

/// One value for each parity of a step.
template <class T>
using ByParity = std::array<T, 2>;

struct PreparedCompute {
  kernels::Run run;
  ByParity<std::vector<kernels::Tensor>> operands;
  ByParity<kernels::Workspace> workspace;
};

/// Rows of memory on one side of a copy.
struct Rows {
  std::byte* start = nullptr;
  std::int64_t rows = 1, row_bytes = 0, pitch_bytes = 0;
};
struct PreparedCopy {
  ByParity<Rows> from, to;
};
/// Copies the bytes in order; the rows of both sides may be cut differently.
void copy_rows(const Rows& from, const Rows& to);

struct PreparedFeed {
  program::FeedKind kind = program::FeedKind::tokens;
  std::int64_t micro = 0;
  ByParity<std::span<std::int32_t>> ids;
};
struct PreparedRecord {
  std::size_t event = 0;
};
struct PreparedWait {
  std::size_t event = 0;
};
/// A collective whose only member holds the result already.
struct PreparedNothing {};

/// For tests: an element that turns to NaN behind an instruction.
struct Poison {
  ByParity<std::byte*> element;
  DType dtype = DType::f32;
};
void write_nan(std::byte* element, DType dtype);

struct PreparedInstruction {
  std::size_t worker = 0;  // which of the backend's threads serves its stream
  std::variant<PreparedNothing, PreparedCompute, PreparedCopy, PreparedFeed, PreparedRecord,
               PreparedWait>
      what;
  std::optional<Poison> poison;
};

struct PreparedProgram {
  const program::Program* program = nullptr;
  std::vector<PreparedInstruction> instructions;
};

/// Resolves everything but kernels and workers. Errors: UserError(environment) for an instruction
/// that needs other ranks; InternalError for slices that a kernel could not read and for a wait
/// that stands before its record.
PreparedProgram prepare_program(const program::Program& program, const Arena& arena);

}  // namespace fourfold::run
