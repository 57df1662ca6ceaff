// A program of every row of the op table, made from what the rows state to be tried on: a row that
// is added is in it.
#pragma once

#include "program/program.h"

namespace fourfold::program {

/// One task on one rank with an instruction for each of op::examples(), in bf16 where the row has
/// no type of its own; each operand is a buffer that nothing else touches.
Program all_rows();

}  // namespace fourfold::program
