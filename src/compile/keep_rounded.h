// Rounded copies of weights that are kept from step to step: the update writes each beside its
// weight, and nobody rounds it again.
#pragma once

#include <set>
#include <string>

#include "compile/persistent_region.h"
#include "compile/sharded_graph.h"
#include "graph/graph.h"
#include "plan/plan.h"

namespace fourfold::compile {

/// The parameters of a mesh whose rounded copies are kept: each that an op of any of its graphs
/// reads in another type than it is kept in, unless a rank updates only its own rows of it. Those
/// rows are gathered in float32, as checkpoints and evaluation want them, and rounding what has
/// arrived costs less than gathering rounded rows as well.
std::set<std::string> rounded_weights(const graph::ModelGraphs& model, const plan::Plan& plan,
                                      MeshId mesh);

/// Where the region has the copy of a parameter, it takes the place of the one that each program
/// makes: the cast goes, and the update of the weight writes the copy. A program that makes the
/// weight out of nothing casts it at its end. Whoever else writes weights, the host, answers for
/// their copies (run::Executor).
ShardedGraph keep_rounded(ShardedGraph graph, const PersistentRegion& persistent);

}  // namespace fourfold::compile
