// A graph of a model cut into stages that run on meshes of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace fourfold::plan {

/// A value that goes from one mesh to another, where it may lie otherwise.
struct Edge {
  op::ProgramKind graph = op::ProgramKind::train;
  std::string value;  // its name where it is made
  std::string into;   // and where it arrives
  MeshId from, to;
  graph::Phase phase = graph::Phase::forward;
  bool goes_once_a_step = false;  // weights, which do not change; else once a micro-batch
  Shape shape = {};               // of the value
  op::Element element = op::Element::compute;
  op::Sharding sent = {}, received = {};  // how it lies on both meshes; plan_stages knows
  /// The stage that sends it, and the first one that reads it: in the forward and the backward
  /// phase these are in turn; an update is that of all stages of a mesh.
  std::size_t from_stage = 0, to_stage = 0;
  bool operator==(const Edge&) const = default;
};

/// By node, the layer that carries it out: its own or, for those outside of all layers, the one
/// that stands before it in the model, or the first.
std::vector<std::int64_t> layers_of_nodes(const graph::Graph& graph);

struct Stages {
  std::vector<graph::Graph> graphs;  // by mesh; their nodes say of which stage they are
  /// In the order in which values leave their stage; they arrive in the same order.
  std::vector<Edge> edges;
};

/// Cuts after the layers `last_layers` (of all stages but the last); layers_of_nodes says what each
/// has. Stage i is on the mesh i modulo their number, which is that of the stages or a divisor of
/// it. A parameter belongs to the mesh of its first use; other meshes receive it, and send back
/// what they add to its gradient. Results are exchanged and added up in one order, so that all
/// meshes have the same bits and decide alike; outputs go to all meshes. A cache is of one mesh, so
/// a graph whose last stage writes what its first one reads (making pictures) cannot be cut.
Stages split_stages(const graph::Graph& graph, const std::vector<std::int64_t>& last_layers,
                    std::size_t meshes);

}  // namespace fourfold::plan
