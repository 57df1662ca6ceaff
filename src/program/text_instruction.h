// One line of program text: an instruction to its columns and back. The frame around it is
// text_write.cpp and text_read.cpp.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "program/program.h"
#include "program/text_words.h"

namespace fourfold::program {

/// How event ids print: those from `first_relative` on as their distance from `base`, "+3"; the
/// others as they are.
struct EventStyle {
  std::int64_t first_relative = std::numeric_limits<std::int64_t>::max();
  std::int64_t base = 0;
};

/// The columns of a line. `rest` holds attributes, workspace and implementation.
struct InstructionColumns {
  std::string stream, name, dtype, operands, rest;
};
InstructionColumns instruction_columns(const Program& program, const Instruction& instruction,
                                       std::optional<std::int64_t> task_micro,
                                       EventStyle events = {});

/// A slice: "w" when whole, "step.lr" for a block's field, "w[64:128]" (offset, bytes),
/// "w[64:4x16/32]" (rows, pitch).
std::string slice_text(const Program& program, const Slice& slice);

/// Event ids from `first` on are read as `by` higher: how a folded task reads the lines of another.
struct EventShift {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  std::int64_t by = 0;
};

/// Names of a program's tables, to look up while reading.
struct NameTable {
  std::unordered_map<std::string_view, BufferId> buffers;
  std::unordered_map<std::string_view, GroupId> groups;
  std::unordered_map<std::string_view, StreamId> streams;
  std::unordered_map<std::string_view, InputId> inputs;
  std::optional<BufferId> step_block, result_block;  // the first buffer of that role
};
/// Views into `program`, which must stay where it is.
NameTable name_table(const Program& program);

struct ReadContext {
  const Program& program;
  const NameTable& names;
  std::optional<std::int64_t> task_micro;
  EventShift shift;
};
/// Throws UserError without file and line, which only the caller knows.
Instruction parse_instruction(std::string_view line, const ReadContext& context);

}  // namespace fourfold::program
