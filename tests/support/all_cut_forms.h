// A model's graphs as they are where ranks share every factor that an op wants whole. Header only.
#pragma once

#include "graph/cut_forms.h"

namespace fourfold::test {

/// Every op that has a cut form in that form; norms merge the moments of so many chunks.
inline graph::Graph in_cut_forms(const graph::Graph& graph, std::int64_t chunks) {
  const auto chunks_of = [&](std::size_t node) {
    const graph::Node& n = graph.nodes[node];
    const bool has_form = !op::factors(n.op, graph.shapes(n.reads)).cut_form.empty();
    return has_form ? std::optional(chunks) : std::nullopt;
  };
  return graph::with_cut_forms(graph, chunks_of).graph;
}

}  // namespace fourfold::test
