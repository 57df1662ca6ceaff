// Activation checkpointing as a rewrite of the graph.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/plan_spec.h"

namespace fourfold::compile {

struct Recomputed {
  graph::Graph graph;
  std::vector<graph::ValueId> origin;    // by value: the value it repeats, or itself
  std::vector<std::size_t> node_origin;  // by node: its index in the graph given, or that of the
                                         // node it repeats
};

/// Rows whose values are computed again wherever the backward pass reads them by none but `readers`
/// (machine::Target::repeated).
struct Repeats {
  std::vector<std::string> rows, readers;
};

/// Cuts the model's layers into segments of `checkpointing.layers` (Chen et al. 2016,
/// arXiv:1604.06174). Of a segment only what other segments read in their forward pass is kept;
/// everything else that the backward pass wants is computed again, by the same ops with the same
/// attributes (dropout masks included), right before its first use: same bits. So is
/// what `repeats` names. With 0 layers and no such row the graph is returned as it is.
Recomputed recompute(graph::Graph graph, plan::Checkpointing checkpointing,
                     const Repeats& repeats = {});

}  // namespace fourfold::compile
