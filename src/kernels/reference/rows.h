// One function for each row of the op table: the reference kernel that defines the op, prepared for
// a problem. A row without one does not link. All are plain loops: one thread, sums in index order,
// no library.
#pragma once

#include "kernels/kernel.h"

namespace fourfold::kernels::reference {

#define FOURFOLD_ROW(Row, work) Run prepare_row(const op::Row& op, const Problem& problem);
FOURFOLD_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW

}  // namespace fourfold::kernels::reference
