// Plan to programs. The list of passes stands in passes.cpp.
#pragma once

#include <vector>

#include "compile/passes.h"
#include "graph/graph.h"
#include "machine/target.h"
#include "plan/plan.h"
#include "program/job.h"

namespace fourfold::compile {

/// A job on one mesh: one class of ranks, whose bundle has a program for every graph of the model,
/// over one persistent and one transient region.
program::Job compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                     const machine::Target& target, const PassOptions& options = {});
/// A job of pipeline stages, each on its own mesh. The ranks of a stage are one class where they
/// send and receive as many messages.
program::Job compile(const std::vector<plan::StagePlan>& stages, const machine::Target& target,
                     const PassOptions& options = {});

}  // namespace fourfold::compile
