// Which kernels of this CPU are worth a line of a table, timed here and now within a limit of time.
#pragma once

#include <vector>

#include "machine/target.h"
#include "measure/product_table.h"

namespace fourfold::measure {

/// A problem whose dims are cut so that it has about so many flops, in steps of 64: first the
/// factor of a product that is no row's length, down to 256, then the largest. Unchanged where it
/// has no more, or is no product of matrices alone. What computes the whole fastest mostly computes
/// a large part of it fastest too: libraries go through large matrices in tiles, but may be slow
/// where rows have a certain length.
kernels::Problem cut_to(const kernels::Problem& problem, double most_flops);

/// Lines for the problems that several kernels compute: those that are known, and those that are
/// timed now, from the first on until `seconds` are over. Calls take several sets of operands in
/// turn, which come from memory as most of a step's do. What `target` chooses today is preferred.
/// Errors: UserError(out_of_memory).
std::vector<machine::KernelTable::Line> time_kernels(
    const std::vector<machine::KernelTable::Line>& known,
    const std::vector<kernels::Problem>& problems, const machine::Target& target, double seconds);

}  // namespace fourfold::measure
