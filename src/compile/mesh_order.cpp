#include "compile/mesh_order.h"

#include <algorithm>

#include "base/error.h"

namespace fourfold::compile {

MeshOrder::MeshOrder(const plan::Plan& plan, op::ProgramKind graph, MeshId mesh) {
  if (graph == op::ProgramKind::train) {
    tasks_ = plan.orders[mesh.index()];
    const auto update =
        std::ranges::find(tasks_, pipeline::TaskKind::update, &pipeline::Task::kind);
    if (update != tasks_.end()) tasks_.erase(update + 1, tasks_.end());
  } else {
    tasks_ = {{pipeline::TaskKind::forward, 0, 0}};
  }
  for (std::size_t at = 0; at < tasks_.size(); ++at) {
    const pipeline::Task& task = tasks_[at];
    places_.emplace(std::tuple(task.kind, stage_of(task.kind, task.stage), task.micro), at);
    if (task.kind == pipeline::TaskKind::forward) micros_ = std::max(micros_, task.micro + 1);
  }
}

pipeline::TaskKind task_of(graph::Phase phase) {
  switch (phase) {
    case graph::Phase::forward:
      return pipeline::TaskKind::forward;
    case graph::Phase::backward:
      return pipeline::TaskKind::backward;
    case graph::Phase::update:
      return pipeline::TaskKind::update;
  }
  fail_internal("every phase has a task");
}

}  // namespace fourfold::compile
