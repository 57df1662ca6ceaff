// The sharding of every value of a graph, and in which shardings each op reads and writes, from a
// layout and the factor rules of op/.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "graph/graph.h"
#include "plan/infeasible.h"
#include "plan/layout.h"

namespace fourfold::plan {

/// What one op wants its reads to be, and what it then gives. Where that differs from how a value
/// is kept, compile/ inserts a conversion. Where a factor is cut that the op wants whole, its cut
/// form is meant (op::cut_form), which compile/ puts in its place.
struct NodeShardings {
  std::vector<op::Sharding> reads, outputs;
  bool operator==(const NodeShardings&) const = default;
};

/// The form in which shardings are compared: no dim has cuts, or all have a list of them.
op::Sharding normal(op::Sharding sharding);

/// Names the mesh in all of them, where they are derived without one.
void put_on(NodeShardings& node, MeshId mesh);

/// A choice of the layout that this graph cannot follow: a factor of an op stays whole, as the
/// ranks do not divide it, or the op has no such factor, or holds it whole.
struct LeftOut {
  std::string op;
  char factor = ' ';
  std::int64_t size = 0;  // 0: the op has no such factor that may be cut
  std::int64_t ranks = 1;
  bool operator==(const LeftOut&) const = default;
};

/// Without the name of the op.
std::string to_string(const LeftOut& left);

struct GraphShardings {
  op::ProgramKind graph = op::ProgramKind::train;
  MeshId mesh;  // on which all of it lies
  /// By value: how it is kept. Activations are brought there as soon as they are made. A gradient's
  /// is that of its sum over the micro-batches.
  std::vector<op::Sharding> values;
  std::vector<NodeShardings> nodes;
  std::vector<LeftOut> left_out = {};
  bool operator==(const GraphShardings&) const = default;
};

/// Shardings of persistent values by name, common to all graphs of a model.
using PersistentShardings = std::map<std::string, op::Sharding>;

/// How the parameters of a layout and their moments lie between steps.
PersistentShardings persistent_shardings(const graph::Graph& train, const Layout& layout);

/// Derives the shardings of one graph on its mesh: each node's factors are cut as the layout has
/// chosen for the node; else as a chosen parameter has them, then as its reads are kept, in their
/// order. A read that is kept as a partial sum is read as one where the op's rule allows that.
/// Persistent values met first here (caches) are added to `persistent`. Infeasible where a rule
/// cannot be followed.
std::variant<GraphShardings, Infeasible> derive_shardings(const graph::Graph& graph,
                                                          const Mesh& mesh, const Layout& layout,
                                                          PersistentShardings& persistent);

}  // namespace fourfold::plan
