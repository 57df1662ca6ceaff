// What the instructions of a program are, in the words and numbers of a timeline.
#pragma once

#include <vector>

#include "program/program.h"
#include "trace/timeline.h"

namespace fourfold::trace {

/// One for each instruction but records, in their order. Streams are the program's. Cost: linear in
/// the instructions.
std::vector<Work> describe_work(const program::Program& program);

}  // namespace fourfold::trace
