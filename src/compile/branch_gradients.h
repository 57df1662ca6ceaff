// Gradients of weights beside the rest of the backward pass.
#pragma once

#include "machine/target.h"
#include "plan/plan.h"
#include "program/program.h"

namespace fourfold::compile {

/// Puts what makes gradients of weights in the backward pass on a stream of its own: products and
/// sums over rows of which nothing is read but by sums, exchanges and the update, and what rounds,
/// adds up or reorders them on the way. All else is urgent: what computes follows from it. An
/// instruction that makes both stays, as does everything where the plan or the target does not want
/// a second stream. Alike on all ranks of a mesh. After fusing: a sum over rows that is made with
/// something urgent in one go costs less than beside it. Cost: linear, but for the names of what is
/// handed over.
program::Program branch_gradients(program::Program program, const plan::Plan& plan,
                                  const machine::Target& target);

}  // namespace fourfold::compile
