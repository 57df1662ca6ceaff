// Plan to programs. The list of passes stands in compile.cpp.
#pragma once

#include <optional>

#include "graph/graph.h"
#include "machine/target.h"
#include "plan/plan.h"
#include "program/program.h"

namespace fourfold::compile {

/// The bundle of a rank of the mesh, by default the first: a program for every graph of the model,
/// over one persistent and one transient region. Without pipeline stages, program::bind makes it
/// that of any other rank.
program::Bundle compile(const graph::ModelGraphs& model, const plan::Plan& plan,
                        const machine::Target& target, std::optional<Rank> rank = std::nullopt);

}  // namespace fourfold::compile
