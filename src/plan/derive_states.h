// The state of every value of a graph, and in which state each op reads and writes it, from the
// annotation of the parameters and the factor rules of op/.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "plan/annotate.h"

namespace fourfold::plan {

/// What one op wants its reads to be, and what it then gives. Where that differs from the state in
/// which a value is kept, compile/ inserts a conversion.
struct NodeStates {
  std::vector<op::Sharding> reads, outputs;
  bool operator==(const NodeStates&) const = default;
};

struct GraphStates {
  std::string graph;
  /// By value: the state in which it is kept. Activations are brought there as soon as they are
  /// made. A gradient's is that of its sum over the micro-batches.
  std::vector<op::Sharding> values;
  std::vector<NodeStates> nodes;
  bool operator==(const GraphStates&) const = default;
};

/// States of persistent values by name, common to all graphs of a model.
using PersistentStates = std::map<std::string, op::Sharding>;

/// Rest states of the annotated parameters and of their moments.
PersistentStates persistent_states(const graph::Graph& train, const Annotation& annotation);

/// Derives the states of one graph. Samples of "train" and "evaluate" are cut on (data, z); the
/// others have one text on all ranks. Persistent values met first here (caches) are added to
/// `persistent`. Infeasible where a rule cannot be followed.
std::variant<GraphStates, Infeasible> derive_states(const graph::Graph& graph, const Mesh& mesh,
                                                    const Annotation& annotation,
                                                    PersistentStates& persistent);

}  // namespace fourfold::plan
