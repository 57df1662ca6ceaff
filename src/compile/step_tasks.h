// What follows from the order of a mesh's tasks: which task carries out a step, and how many slots
// a value needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "compile/departures.h"
#include "compile/mesh_order.h"
#include "compile/receipts.h"
#include "compile/sharded_graph.h"
#include "pipeline/order.h"
#include "plan/plan.h"

namespace fourfold::compile {

/// How often a task carries out a step, where it processes its micro-batch in chunks.
enum class Times : std::uint8_t {
  once_before,  // for all chunks, with the first of them: gathers and casts of weights
  of_each_chunk,
  once_after  // with the last chunk: what reads sums over the micro-batch
};

struct StepTasks {
  using Key = std::pair<pipeline::TaskKind, std::size_t>;  // of a task, with MeshOrder::stage_of
  std::map<Key, std::vector<std::size_t>> steps;           // in the graph's order
  std::vector<std::int64_t> slots;                         // by value, of a micro-batch
  std::vector<Times> times;                                // by step
  std::vector<bool> is_of_chunk;  // by value: each chunk has one of its own
  /// By input, the stage whose forward task brings it (MeshOrder::stage_of).
  std::map<ValueId, std::size_t> fed_for;
};

/// Gives the steps of each phase and stage to the task of both; those that make nothing but
/// gradients of parameters to a task of their own, where the order has such tasks. A value has one
/// slot for each micro-batch whose value is alive at once in the order, from its receipt on where
/// it is received, and one more where it is fed, so that the next arrives early; what is sent stays
/// `tasks_to_send` after the task with which it leaves, so that nothing waits for its peer. Sums,
/// rounded weights, those of other meshes and what is converted once in a step have one for all
/// micro-batches. What follows from samples is of their chunk; what several chunks add to is not,
/// nor what reads that.
StepTasks step_tasks(const ShardedGraph& graph, const plan::Plan& plan, const MeshOrder& order,
                     const std::vector<Receipt>& receipts, const Departures& departures);

}  // namespace fourfold::compile
