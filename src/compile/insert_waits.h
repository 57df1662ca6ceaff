// Order between streams.
#pragma once

#include "plan/plan_spec.h"
#include "program/program.h"

namespace fourfold::compile {

/// Inserts a Record and a Wait wherever an instruction touches bytes that an earlier one on another
/// stream touches too, one of them writing, unless an order between the two follows already; and
/// around each collective that may not run beside computation. After
/// `place_buffers`: conflicts come from addresses. Cost: n log n in the accesses, for each of which
/// the bytes are looked at in runs that the same instructions touched last.
program::Program insert_waits(program::Program program, const plan::Overlap& overlap = {});

}  // namespace fourfold::compile
