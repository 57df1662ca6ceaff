// What each row of the table is tried on: small problems that its kernels, gradients, text and
// verifier must master. Tests and fuzz targets run over all of them, so that a new row is covered
// by what it states itself. The examples of a row stand beside its rules. Not for programs that
// run.
#pragma once

#include <vector>

#include "op/table.h"

namespace fourfold::op {

/// A problem with attributes that differ from the defaults where a row has any.
struct Example {
  Op op;
  std::vector<Shape> reads;
  /// Values of operands of real numbers, reads and then outputs that are updated; -1 to 1 for those
  /// that stand after the last one here. Functions are smooth there, and finite.
  std::vector<Range> ranges = {};
};

/// At least one of each row.
std::vector<Example> examples();

#define FOURFOLD_ROW(Row, work) std::vector<Example> examples_of(const Row& row);
FOURFOLD_ROWS(FOURFOLD_ROW)
#undef FOURFOLD_ROW

}  // namespace fourfold::op
