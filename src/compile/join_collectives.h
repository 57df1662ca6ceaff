// Small collectives of one group as one: the ranks meet once for several tensors, and the time to
// meet is most of what a small one takes.
#pragma once

#include "program/program.h"

namespace fourfold::compile {

/// True if two collectives differ in their tensors alone: one may take those of both.
bool differ_in_tensors_alone(const program::Program& program, const program::Instruction& a,
                             const program::Instruction& b);

/// Makes one instruction of all-reduces, and of gathers in place, that are alike in stream, group,
/// reduction and element type and stand in one task. They stand where the last of them stood, so
/// nothing may touch their tensors between; each still finds its memory as it left it, so no buffer
/// lives longer. A collective of more than 32 KiB stays alone, and no list has more than 256 KiB or
/// 64 tensors: packing them costs less than a meeting (comm/README.md has both times).
/// For programs that are alike on all ranks of their mesh, as those of jobs without messages are.
/// Runs after the rows are fused and before anything has an address. Where ranks are threads no bit
/// changes; MPI may add up the terms of a longer message in another order.
/// Cost: that of Uses for each collective.
program::Program join_collectives(program::Program program);

}  // namespace fourfold::compile
