// Order between streams.
#pragma once

#include <cstddef>

#include "plan/plan_spec.h"
#include "program/program.h"

namespace fourfold::compile {

/// Inserts a Record and a Wait wherever an instruction touches bytes that an earlier one on another
/// stream touches too, one of them writing, unless an order between the two follows already; and
/// around each collective and transfer that may not run beside computation. What is received ahead
/// of its reader begins when computation has come to its place in the list. After
/// `place_buffers`: conflicts come from addresses. Cost: n log n in the accesses, for each of which
/// the bytes are looked at in runs that the same instructions touched last.
program::Program insert_waits(program::Program program, const plan::Overlap& overlap = {});

/// The waits of a program, and how many of them are between two instructions that touch no common
/// buffer: one waits for memory that it uses after the other, or stands alone. Cost: linear.
struct WaitCount {
  std::size_t all = 0, for_memory = 0;
};
WaitCount count_waits(const program::Program& program);

}  // namespace fourfold::compile
