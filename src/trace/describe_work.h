// What the instructions of a program are, in the words and numbers of a timeline.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "trace/timeline.h"

namespace fourfold::trace {

enum class Words : std::uint8_t {
  all,
  of_kinds  // those that many works share: text, task and meeting stay empty, which saves most time
};

/// One for each instruction but records, in their order. Streams are the program's. Cost: linear in
/// the instructions.
std::vector<Work> describe_work(const program::Program& program, Words words = Words::all);

}  // namespace fourfold::trace
