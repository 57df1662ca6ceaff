// The order of a mesh's tasks for one graph, and where each of them stands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>

#include "graph/graph.h"
#include "pipeline/order.h"
#include "plan/plan.h"

namespace fourfold::compile {

class MeshOrder {
 public:
  /// For training, the tasks of the plan, with one update for all stages of the mesh; for any other
  /// graph one forward task for all of them.
  MeshOrder(const plan::Plan& plan, op::ProgramKind graph, MeshId mesh);

  const pipeline::Order& tasks() const { return tasks_; }
  std::int64_t micros() const { return micros_; }
  /// True if a task does what all stages of the mesh have to do.
  bool is_one_task() const { return tasks_.size() == 1; }
  /// The stage that tells tasks of one kind apart; 0 for those that serve all stages.
  std::size_t stage_of(pipeline::TaskKind kind, std::size_t stage) const {
    return is_one_task() || kind == pipeline::TaskKind::update ? 0 : stage;
  }
  /// Where a task stands.
  std::size_t place(pipeline::TaskKind kind, std::size_t stage, std::int64_t micro) const {
    return places_.at({kind, stage_of(kind, stage), micro});
  }

 private:
  pipeline::Order tasks_;
  std::int64_t micros_ = 0;
  std::map<std::tuple<pipeline::TaskKind, std::size_t, std::int64_t>, std::size_t> places_;
};

/// The task that carries out a phase; a part of the backward phase may have one of its own.
pipeline::TaskKind task_of(graph::Phase phase);

}  // namespace fourfold::compile
