// What a plan is and whether it is legal: meshes, the sharding of every value, micro-batches,
// recomputation. Not how it is carried out: that is compile/.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "base/mesh.h"
#include "graph/graph.h"
#include "pipeline/order.h"
#include "pipeline/schedule_spec.h"
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
  std::int64_t chunks = 1;        // in which training processes a micro-batch
  bool operator==(const Batching&) const = default;

  std::int64_t samples() const {
    return micro_batch * replicas;
  }  // of a micro-batch, over all ranks
};
std::variant<Batching, Infeasible> solve_batching(const PlanSpec& spec);

struct Plan {
  std::int64_t world = 1;
  std::vector<Mesh> meshes;  // one, or those of the stages of a pipeline, which take turns
  Batching batching;         // on the first mesh; the others divide the same micro-batches
  DType compute = DType::f32;
  Checkpointing checkpointing;
  /// By mesh, where an automatic one is not the same for all: `first_full` and `first_selective`
  /// are then numbers of layers of the model, of which a mesh has some. Empty: as above for all.
  std::vector<Checkpointing> checkpointing_of_meshes = {};
  Overlap overlap;
  std::int64_t bucket_bytes = default_bucket_bytes;  // see PlanSpec, as the next two
  std::optional<std::int64_t> cached_gathers, memory_limit;
  /// Gradients are rounded to the type of the computation before collectives carry them.
  bool rounds_gradients = false;
  std::vector<GraphShardings> graphs;  // in the order of the model's graphs
  /// What the meshes send each other, of each graph in the order in which values leave. A run on
  /// one mesh sends nothing.
  std::vector<Edge> edges;
  /// By mesh: in which order it does its part of a training step.
  std::vector<pipeline::Order> orders;
  /// By stage, how many layers it has; empty where the model is not cut.
  std::vector<std::int64_t> layers;
  ReshardSpec reshard;              // of what goes along the edges
  pipeline::ScheduleSpec schedule;  // of the stages; its delay is settled
  bool operator==(const Plan&) const = default;

  const GraphShardings& of(op::ProgramKind graph, MeshId mesh = {}) const;
  const Checkpointing& checkpointing_on(MeshId mesh) const {
    return checkpointing_of_meshes.empty() ? checkpointing : checkpointing_of_meshes[mesh.index()];
  }
  /// True if a rank of some mesh computes something again.
  bool repeats_any() const;
  std::size_t num_stages() const { return layers.empty() ? 1 : layers.size(); }
  MeshId mesh_of_stage(std::size_t stage) const { return MeshId(stage % meshes.size()); }
};

/// The plan for the graphs by the strategy of the spec. Requires a settled grid, and graphs written
/// for its batching.
std::variant<Plan, Infeasible> make_plan(const graph::ModelGraphs& model, const PlanSpec& spec);

/// The plan on a mesh of any axes: parameters and feeds as the layout has them, all else as the
/// ops' factor rules derive it.
std::variant<Plan, Infeasible> make_plan(const graph::ModelGraphs& model, const Mesh& mesh,
                                         const Layout& layout, const Batching& batching,
                                         DType compute, Checkpointing checkpointing);

/// What is chosen of a plan so that a rank's memory is within a limit, beside the plan. What is
/// none or empty is as the plan has it.
struct Fit {
  std::optional<std::int64_t> memory_limit;
  std::vector<Checkpointing> checkpointing = {};              // by mesh
  std::optional<std::int64_t> cached_gathers = std::nullopt;  // as of PlanSpec
  /// Micro-batches more than 1F1B has ahead that an eager pipeline begins with, at most.
  std::optional<std::int64_t> warm_ups = std::nullopt;
  bool operator==(const Fit&) const = default;
};
/// The plan in which that is chosen. Cost: a copy of the plan.
Plan with_fit(const Plan& plan, const Fit& fit);

/// The layout that the spec gives, or that its strategy gives, the model on a mesh.
std::variant<Layout, Infeasible> make_layout(const graph::ModelGraphs& model, const PlanSpec& spec,
                                             const Mesh& mesh);

/// The layout in which every weight is whole and samples are divided on data and z, on a mesh with
/// the axes of a grid: legal for any model whose batch they divide.
Layout whole_layout(const graph::ModelGraphs& model, const Mesh& mesh);

/// The graphs of a model as its plan has them, cut into the stages of a pipeline where it has some.
struct PlannedModel {
  graph::ModelGraphs model;
  Plan plan;
};
/// The plan for a model on one mesh, or on those of the stages of a pipeline: one after another in
/// rank order, each with one stage or several. All stages process the same micro-batches, of
/// `micro_batch_size` samples a rank of the first mesh, each divided by its own grid. Infeasible
/// where a table that several stages use leaves a rank without a row, and for stages in chunks.
/// Requires what make_plan does.
std::variant<PlannedModel, Infeasible> plan_model(graph::ModelGraphs model, const PlanSpec& spec);

/// The most micro-batches that Fit::warm_ups may say: stages - 1; 0 where the pipeline is not
/// eager.
std::int64_t most_warm_ups(const Plan& plan);

/// The layers of the model that the stages of a mesh have, ascending.
std::vector<std::int64_t> layers_on(const Plan& plan, MeshId mesh, std::int64_t num_layers);

/// What is computed again: "full for 2 layers"; where meshes differ, of each: "stage0: full for 2
/// layers; stage1: none".
std::string checkpointing_text(const Plan& plan);

/// Meshes, the batch equation, and every value that is not replicated.
std::string to_text(const Plan& plan, const graph::ModelGraphs& model);

}  // namespace fourfold::plan
