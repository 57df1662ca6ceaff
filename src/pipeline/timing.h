// When each task of a pipeline runs, from durations alone, and what follows from that. Not how long
// a task takes, and not what a program does: simulate/ prices programs.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "pipeline/dependencies.h"
#include "pipeline/order.h"

namespace fourfold::pipeline {

/// What a micro-batch costs a stage. A backward task takes both of its parts, unless the order has
/// tasks for the weights' part.
struct StageCost {
  double forward_s = 0, backward_s = 0, weight_backward_s = 0;
};
/// What it takes to send an edge's tensor, and its gradient back. Stages of one mesh send nothing.
struct EdgeCost {
  double forward_s = 0, backward_s = 0;
};

/// What a mesh does while it sends or receives.
enum class Transfers : std::uint8_t {
  overlapped,    // it computes; from one mesh to another one message goes at a time
  block_sender,  // the sender waits after the task until its messages are sent
  block_both  // and the receiver spends the same time on each right before the task that reads it
};

/// One cost for each stage, and for each edge in the order of `edges`.
struct Costs {
  std::vector<StageCost> stages = {};
  std::vector<Edge> edges = {};
  std::vector<EdgeCost> of_edges = {};
  Transfers transfers = Transfers::overlapped;
};

struct Interval {
  double begin_s = 0, end_s = 0;
  bool operator==(const Interval&) const = default;
};
/// A message's time on the sender, and on the receiver. They differ where both are blocked.
struct Passage {
  Interval sent, received;
  bool operator==(const Passage&) const = default;
};
/// By micro-batch.
struct EdgePassages {
  std::vector<Passage> forward, backward;
};

/// When everything happened in a step. Waiting and sending are not part of a task's time.
struct Timing {
  std::vector<std::vector<Interval>> tasks;  // by mesh, in the order of its tasks
  std::vector<EdgePassages> edges;
  double makespan_s = 0;
};

/// Runs each task as soon as its mesh has ended the one before and what it reads has arrived. A
/// message is sent once its task has ended, in the order of tasks and then of edges. An update
/// takes no time. Cost: linear in tasks, and in edges times micro-batches.
std::variant<Timing, Stuck> time_orders(const std::vector<Order>& orders, const Costs& costs);

/// How long a micro-batch takes once the pipeline is full: the mean time between the backward tasks
/// of stage 0 over the middle half of a step. Requires at least 4 micro-batches.
double steady_period_s(const std::vector<Order>& orders, const Timing& timing);

/// By mesh: the part of the step in which it does not compute.
std::vector<double> idle_shares(const Timing& timing);

}  // namespace fourfold::pipeline
