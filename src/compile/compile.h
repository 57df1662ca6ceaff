// Plan to programs. The list of passes stands in compile.cpp.
#pragma once

#include "graph/graph.h"
#include "machine/target.h"
#include "plan/plan.h"
#include "program/program.h"

namespace fourfold::compile {

/// The bundle of one rank: a program for every graph of the model, over one persistent and one
/// transient region.
program::Bundle compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                        const machine::Target& target);

}  // namespace fourfold::compile
