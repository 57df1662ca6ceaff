// How many micro-batches keep something at once: on a stage, and of a tensor that goes from one
// stage to another, on both sides. Not in bytes: who knows the tensors multiplies.
#pragma once

#include <cstdint>
#include <vector>

#include "pipeline/dependencies.h"
#include "pipeline/order.h"
#include "pipeline/timing.h"

namespace fourfold::pipeline {

/// The copies of a tensor, each of another micro-batch, that are there at once. One on the sender
/// lives from the begin of the task that makes it until it is sent; one on the receiver from the
/// begin of its arrival to the end of the last task that reads it, which is that of the weights'
/// part where there are such tasks, and the backward task otherwise. A skip is no exception. Edges
/// within a mesh have no copies.
struct EdgeCopies {
  std::int64_t on_sender = 0, on_receiver = 0;
  bool operator==(const EdgeCopies&) const = default;
};

struct Peaks {
  /// By stage: micro-batches from the begin of the forward task to the end of the last one.
  std::vector<std::int64_t> live_of_stage;
  std::vector<EdgeCopies> forward, backward;  // by edge: of the tensor, and of its gradient
  bool operator==(const Peaks&) const = default;
};

/// The peaks of orders whatever tasks and messages take: the most that some durations reach, and
/// none exceed. So many buffers are enough for no message to wait for one.
/// Requires orders that come to their end. Cost: tasks times meshes.
Peaks most_peaks(const std::vector<Order>& orders, const std::vector<Edge>& edges);

/// The peaks at the times of a step. Linear in tasks, and in edges times micro-batches.
Peaks peaks_at(const std::vector<Order>& orders, const Costs& costs, const Timing& timing);

}  // namespace fourfold::pipeline
