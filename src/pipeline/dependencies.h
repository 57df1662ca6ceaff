// Which task waits for which, over any graph of stages, and an order in which all of them can run:
// or the circle of tasks that wait for each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "pipeline/order.h"

namespace fourfold::pipeline {

/// A tensor that stage `from` makes of each micro-batch and a later stage `to` reads; its gradient
/// goes back. A skip is an edge like any other.
struct Edge {
  std::size_t from = 0, to = 1;
  bool operator==(const Edge&) const = default;
};
/// The edges of stages that each feed the next one alone.
std::vector<Edge> chain(std::size_t stages);

/// The edges of each stage, as indices into the list of all.
struct EdgesOfStages {
  std::vector<std::vector<std::size_t>> into, out_of;
};
/// Requires edges that go from earlier stages to later ones, of `stages`.
EdgesOfStages edges_of_stages(const std::vector<Edge>& edges, std::size_t stages);

/// One more than the highest stage that an order names, likewise of micro-batches.
struct Extent {
  std::size_t stages = 0;
  std::int64_t micros = 0;
};
Extent extent_of(const std::vector<Order>& orders);

/// By stage: the mesh whose order names it.
std::vector<std::size_t> meshes_of_stages(const std::vector<Order>& orders, std::size_t stages);

/// A task, as the mesh and its place in the mesh's order.
struct Step {
  std::size_t mesh = 0, place = 0;
  bool operator==(const Step&) const = default;
};

/// Mesh `mesh` has come to `task`, which needs `needed`, which has not run.
struct Waiting {
  std::size_t mesh = 0;
  Task task, needed;
  bool operator==(const Waiting&) const = default;
};
/// Orders that do not come to their end: each waits for the next one, and the last one for the
/// first; or the last one for a task that no order names.
struct Stuck {
  std::vector<Waiting> circle;
  bool operator==(const Stuck&) const = default;
};
/// "mesh 0 waits at B0 of stage 0 for B0 of stage 1; mesh 1 ...".
std::string to_text(const Stuck& stuck);

/// All tasks so that each stands after the ones before it in its mesh's order and after those that
/// it needs: a forward task those of the stages that feed it; a backward task its own forward task
/// and the backward tasks of the stages that it feeds; a weight part its backward task.
/// Cost: linear in tasks and in edges times micro-batches.
std::variant<std::vector<Step>, Stuck> steps_in_order(const std::vector<Order>& orders,
                                                      const std::vector<Edge>& edges);

}  // namespace fourfold::pipeline
