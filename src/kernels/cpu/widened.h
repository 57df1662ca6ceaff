// A kernel in float32 as the kernel of the same problem in bf16: it reads copies in float32 of what
// is stored in bf16, and what it writes is rounded. For rows whose own arithmetic is far more than
// the copies, or that are rare. Rows that go over memory once read bf16 themselves (storage.h).
#pragma once

#include <cstdint>

#include "kernels/kernel.h"

namespace fourfold::kernels::cpu {

/// The same problem in float32.
Problem in_float(const Problem& problem);

/// The kernel of a problem in bf16 by `kernel`, that of in_float(problem), which needs so many
/// bytes of workspace. Sums are in float32, and each output is rounded once, to nearest even. Cost:
/// six bytes moved for each element that is stored in bf16, beside those of the kernel.
Run widened(const Problem& problem, Run kernel, std::int64_t workspace_bytes);
/// Bytes of workspace of that: what the kernel needs, then the copies.
std::int64_t widened_bytes(const Problem& problem, std::int64_t workspace_bytes);

}  // namespace fourfold::kernels::cpu
