// What a plan is and whether it is legal: meshes, the sharding of every value, micro-batches,
// recomputation. Not how it is carried out: that is compile/.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/mesh.h"
#include "graph/graph.h"
#include "plan/derive_shardings.h"
#include "plan/infeasible.h"
#include "plan/make_mesh.h"
#include "plan/plan_spec.h"
#include "plan/split_stages.h"

namespace fourfold::plan {

/// How the samples of a step are divided: global = micro x accumulation x ranks that hold different
/// samples.
struct Batching {
  std::int64_t global_batch = 1;  // samples of a step
  std::int64_t micro_batch = 1;   // samples that one rank processes at once
  std::int64_t replicas = 1;      // ranks with different samples: data x z
  std::int64_t accumulation = 1;  // micro-batches of a step
  std::int64_t length = 1;        // tokens of a sample
  bool operator==(const Batching&) const = default;

  std::int64_t samples() const {
    return micro_batch * replicas;
  }  // of a micro-batch, over all ranks
};
/// Requires a settled grid (solve_grid).
std::variant<Batching, Infeasible> solve_batching(const PlanSpec& spec);

struct Plan {
  std::int64_t world = 1;
  std::vector<Mesh> meshes;
  Batching batching;
  DType compute = DType::f32;
  Checkpointing checkpointing;
  std::vector<GraphShardings> graphs;  // in the order of the model's graphs
  /// Pipelines: the meshes of all stages, which of them this plan is for, and what they send each
  /// other. A run without stages has none.
  std::vector<Mesh> stages;
  std::size_t stage = 0;
  std::vector<Transfer> transfers;
  bool operator==(const Plan&) const = default;

  const GraphShardings& of(std::string_view graph) const;
};

/// The plan for the graphs by the strategy of the spec. Requires a settled grid, and graphs written
/// for its batching.
std::variant<Plan, Infeasible> make_plan(const graph::ModelGraphs& model, const PlanSpec& spec);

/// The plan on a mesh of any axes: parameters and feeds as the layout has them, all else as the
/// ops' factor rules derive it.
std::variant<Plan, Infeasible> make_plan(const graph::ModelGraphs& model, const Mesh& mesh,
                                         const Layout& layout, const Batching& batching,
                                         DType compute, Checkpointing checkpointing);

/// The layout that the strategy of the spec gives the model on a mesh.
std::variant<Layout, Infeasible> make_layout(const graph::ModelGraphs& model, const PlanSpec& spec,
                                             const Mesh& mesh);

/// One stage of a pipeline: its graphs, of which "train" is one of split_stages', and its plan.
struct StagePlan {
  graph::ModelGraphs model;
  Plan plan;
};
/// Plans for the training of a model on several meshes, one after another in rank order: stage s
/// has `grids[s]` and the blocks up to `last_blocks[s]`. All stages process the same micro-batches,
/// each divided by its own grid. The training step runs all forward passes, then all backward
/// passes (GPipe, Huang et al. 2019). Infeasible for more than two stages, and where a vocabulary
/// that both stages use is not divided evenly.
std::variant<std::vector<StagePlan>, Infeasible> plan_stages(
    const graph::Graph& train, const PlanSpec& spec, const std::vector<Grid>& grids,
    const std::vector<std::int64_t>& last_blocks);

/// Meshes, the batch equation, and every value that is not replicated.
std::string to_text(const Plan& plan, const graph::ModelGraphs& model);

}  // namespace fourfold::plan
