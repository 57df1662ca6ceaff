// A step of a pipeline drawn with letters, as papers draw it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/order.h"
#include "pipeline/timing.h"

namespace fourfold::pipeline {

/// A row for each mesh, time to the right: "F0-" is the forward task of micro-batch 0, as long as
/// its letter, its number and its dashes; B backward, W the weights' part, dots where the mesh does
/// not compute. Where a mesh has several stages "F2.0" is stage 2's. Columns are as wide in time as
/// lets the shortest task show its number, and wider where the step then has more than
/// `most_columns` of them; what has no room is left out.
/// `row` is what a row is of.
std::string to_text(const std::vector<Order>& orders, const Timing& timing,
                    std::size_t most_columns = 160, std::string_view row = "mesh");

}  // namespace fourfold::pipeline
