// Rows in parts in place of rows that want a factor whole. What decides where ranks share such a
// factor is a plan; the function that a graph computes stays the same, up to rounding.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace fourfold::graph {

struct WithCutForms {
  Graph graph;
  std::vector<std::size_t> node_origin;              // by node: the node it is (a part of)
  std::vector<std::optional<ValueId>> value_origin;  // by value: none where it is new
};

/// Replaces each node for which `chunks_of` gives a number by its cut form (op::cut_form) with so
/// many chunks. A new value stands before the outputs of its node and is named after the first of
/// them, or after the value whose gradient the node has read: "ln1.moments", "ln1/gradient_sums".
WithCutForms with_cut_forms(
    const Graph& graph,
    const std::function<std::optional<std::int64_t>(std::size_t node)>& chunks_of);

}  // namespace fourfold::graph
