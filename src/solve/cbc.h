// CBC (coin-or.org), the solver of integer programs, where it was found when Fourfold was built:
// one of the folders cbc/ and no_cbc/ is compiled. Not what it is asked: integer_forms.h.
#pragma once

#include "solve/integer_program.h"

namespace fourfold::solve {

bool has_cbc();

/// Solves a program with one thread, looking at so many nodes of its tree. One program at a time:
/// others wait, since CBC keeps its options in variables of the process. Equal programs have equal
/// results. InternalError where there is no CBC.
ProgramResult run_cbc(const IntegerProgram& program, Columns columns, int most_branches);

}  // namespace fourfold::solve
