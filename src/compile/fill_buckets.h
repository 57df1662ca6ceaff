// Gradients are summed on data while the last backward pass still computes others (Li et al. 2020,
// arXiv:2006.15704, section 3.2.3; AxoNN, section IV).
#pragma once

#include <cstdint>

#include "program/program.h"

namespace fourfold::compile {

/// Moves the all-reduces and reduce-scatters of gradients that stand after the last backward pass
/// into it: in the order in which their gradients are complete, as many together as make `bytes`,
/// each such bucket right after the last change of what is in it. A gradient of that size goes
/// alone. Nothing for 0 bytes.
/// Where ranks are threads no bit changes; MPI may add up the terms of a longer message in another
/// order. Runs before anything has an address. Cost: linear, and that of sorting them.
program::Program fill_buckets(program::Program program, std::int64_t bytes);

}  // namespace fourfold::compile
