// Instructions and ranks in words, for errors and for whoever watches a run. Not the program's text
// (program/text.h), which reads back.
#pragma once

#include <string>

#include "comm/progress.h"
#include "program/program.h"

namespace fourfold::run {

/// "instruction 17 (all_reduce p1 in forward(0)) of train"; for a wait what it waits for:
/// "instruction 18 (wait for contract h1 on math in forward(0)) of train".
std::string describe_instruction(const program::Program& program, std::size_t instruction);
/// Also whether it is one that waits for another stream or another rank.
comm::Progress::Description describe_place(const program::Program& program,
                                           std::size_t instruction);
/// "rank 3 (data 0, z 1, y 0, x 1)", with the coordinates on the first mesh that has the rank.
std::string describe_rank(const program::Program& program);

}  // namespace fourfold::run
