// Where the tasks of each stage stand in the orders of all meshes.
#pragma once

#include <cstddef>
#include <vector>

#include "pipeline/order.h"

namespace fourfold::pipeline {

/// The tasks of one stage, by micro-batch, as places in the order of its mesh.
struct StagePlaces {
  std::size_t mesh = 0;
  std::vector<std::size_t> forward, backward, weight_backward;  // empty: it has no such tasks

  /// The task after which a micro-batch keeps nothing on the stage.
  const std::vector<std::size_t>& last() const {
    return weight_backward.empty() ? backward : weight_backward;
  }
};

/// By stage. Requires orders that name each micro-batch once a kind (steps_in_order tells).
std::vector<StagePlaces> places_of_stages(const std::vector<Order>& orders);

}  // namespace fourfold::pipeline
