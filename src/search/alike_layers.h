// Which ops and values of a graph stand at the same place of layers that do the same: what a search
// may choose for all of them at once.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace fourfold::search {

/// Two are alike that have the same number.
struct Alike {
  std::vector<std::size_t> ops, values;  // by node, by value
};

/// Layers are alike in a phase where three quarters of their ops have the same names, rules and
/// shapes in the same order; these ops then are. A value is as its maker is, a weight as what reads
/// it first, a gradient as its weight; all others are like nothing else. Cost: nodes x layers that
/// differ.
Alike alike_layers(const graph::Graph& graph);

}  // namespace fourfold::search
