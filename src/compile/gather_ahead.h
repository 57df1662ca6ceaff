// Gathers of weights begin before the weights are needed (AxoNN, Singh et al. 2024, section IV:
// "prefetching").
#pragma once

#include "program/program.h"

namespace fourfold::compile {

/// Puts each gather of a stream before the first instruction that reads what the gather before it
/// brings, so that it runs beside that computation: within a layer, from layer to layer, from the
/// forward pass to the backward pass and from one micro-batch to the next. It goes no further than
/// the last change of what it reads, the last use of the buffer that it writes, and the gather
/// before it; and not out of its task where it gathers what other meshes have sent: a task waits
/// for no message but its own (departures.cpp). What it brings is in memory longer for it: one more
/// gathered tensor at a time. Runs before anything has an address. Cost: linear.
program::Program gather_ahead(program::Program program);

}  // namespace fourfold::compile
