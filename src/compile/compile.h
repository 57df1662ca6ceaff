// Plan to programs. The list of passes stands in passes.cpp.
#pragma once

#include "compile/passes.h"
#include "graph/graph.h"
#include "machine/target.h"
#include "plan/plan.h"
#include "program/job.h"

namespace fourfold::compile {

/// The job of a plan. A bundle has a program for every graph of its mesh, over one persistent and
/// one transient region. The ranks of a mesh are one class where they send and receive the same
/// parts of their tensors; each class is compiled once.
program::Job compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                     const machine::Target& target, const PassOptions& options = {});

}  // namespace fourfold::compile
