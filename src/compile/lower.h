// Graph and plan to the unrolled list of instructions of a step, over buffers without addresses
// yet.
#pragma once

#include "compile/persistent_layout.h"
#include "compile/recompute.h"
#include "plan/plan.h"
#include "program/program.h"

namespace fourfold::compile {

/// Unrolls forward and backward over the micro-batches and appends the update; each becomes a task.
/// Feeds go on their own stream, with two slots by micro-batch when there are several, so that the
/// next micro-batch arrives early. A sum is overwritten by its first producer and added to by all
/// others. Kernels, addresses and waits are not decided here.
program::Program lower(const Recomputed& recomputed, const plan::Plan& plan,
                       const PersistentLayout& persistent);

}  // namespace fourfold::compile
