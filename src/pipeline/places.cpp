#include "pipeline/places.h"

#include "pipeline/dependencies.h"

namespace fourfold::pipeline {

std::vector<StagePlaces> places_of_stages(const std::vector<Order>& orders) {
  const Extent extent = extent_of(orders);
  std::vector<StagePlaces> result(extent.stages);
  for (std::size_t mesh = 0; mesh < orders.size(); ++mesh)
    for (std::size_t place = 0; place < orders[mesh].size(); ++place) {
      const Task& task = orders[mesh][place];
      if (task.kind == TaskKind::update) continue;
      StagePlaces& stage = result[task.stage];
      stage.mesh = mesh;
      auto& places = task.kind == TaskKind::forward    ? stage.forward
                     : task.kind == TaskKind::backward ? stage.backward
                                                       : stage.weight_backward;
      places.resize(static_cast<std::size_t>(extent.micros));
      places[static_cast<std::size_t>(task.micro)] = place;
    }
  return result;
}

}  // namespace fourfold::pipeline
