#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "graph/update.h"
#include "plan/balance_stages.h"
#include "plan/plan.h"

namespace fourfold::plan {
namespace {

std::int64_t replicas_of(const Grid& grid) {
  return grid.z * grid.data.value();
}

/// The grids of all stages.
std::vector<Grid> grids_of(const PlanSpec& spec) {
  if (!spec.pipeline.grids.empty()) return spec.pipeline.grids;
  return std::vector<Grid>(static_cast<std::size_t>(spec.pipeline.stages), spec.grid);
}

/// The spec of one stage: its grid, and the part of a micro-batch that is then a rank's.
std::variant<PlanSpec, Infeasible> stage_spec(const PlanSpec& spec, const std::vector<Grid>& grids,
                                              std::size_t stage) {
  const std::int64_t samples = spec.micro_batch_size * replicas_of(grids[0]),
                     replicas = replicas_of(grids[stage]);
  if (samples % replicas != 0) return Infeasible{{UnevenStage{stage, samples, replicas}}};
  PlanSpec result = spec;
  result.grid = grids[stage];
  result.pipeline = {};
  result.micro_batch_size = samples / replicas;
  return result;
}

/// How many each stage has.
std::vector<std::int64_t> layers_of(const std::vector<std::int64_t>& last_layers,
                                    std::int64_t layers) {
  std::vector<std::int64_t> result;
  std::int64_t begin = 0;
  for (const std::int64_t last : last_layers) {
    result.push_back(last + 1 - begin);
    begin = last + 1;
  }
  result.push_back(layers - begin);
  return result;
}

graph::ModelGraphs graphs_on(const graph::ModelGraphs& model, MeshId mesh) {
  graph::ModelGraphs result{{}, model.num_layers};
  std::ranges::copy_if(model.graphs, std::back_inserter(result.graphs),
                       [&](const graph::Graph& graph) { return graph.mesh == mesh; });
  return result;
}

/// The graphs of all stages, and what they send each other.
struct Cut {
  graph::ModelGraphs model;
  std::vector<Edge> edges;
};

/// Cuts the graphs that compute something; those that start state and look at it are each stage's
/// own.
Cut cut(const graph::ModelGraphs& model, const std::vector<std::int64_t>& last_layers) {
  Cut result;
  const auto is_of_state = [](const graph::Graph& graph) {
    return graph.name == "init" || graph.name == "digest";
  };
  for (const graph::Graph& graph : model.graphs) {
    if (is_of_state(graph)) continue;
    Stages split = split_stages(graph, last_layers);
    std::ranges::move(split.graphs, std::back_inserter(result.model.graphs));
    std::ranges::move(split.edges, std::back_inserter(result.edges));
  }
  for (std::size_t stage = 0; stage <= last_layers.size(); ++stage) {
    const std::vector<graph::Graph> own = graphs_on(result.model, MeshId(stage)).graphs;
    for (graph::Graph graph : {graph::init_graph(own), graph::digest_graph(own)}) {
      graph.mesh = MeshId(stage);
      result.model.graphs.push_back(std::move(graph));
    }
  }
  result.model.num_layers = model.num_layers;
  return result;
}

/// A table that goes from one stage to another is cut there from the whole, which has no padding.
std::optional<Infeasible> padded_table(const Cut& cut, const std::vector<Grid>& grids) {
  for (const Edge& edge : cut.edges) {
    const graph::Graph& sender = cut.model.at(edge.graph, edge.from);
    const graph::Value& value = sender.value(*sender.find(edge.value));
    if (value.role != graph::ValueRole::parameter) continue;
    for (const Grid& grid : grids)
      if (const std::int64_t ranks = grid.x * grid.y * grid.z; value.shape[0] % ranks != 0)
        return Infeasible{{PaddedTransfer{value.name, value.shape[0], ranks}}};
  }
  return std::nullopt;
}

/// Takes over what the plan of one stage says of its mesh.
void add_stage(Plan& plan, Plan stage, const graph::ModelGraphs& model) {
  Mesh& mesh = stage.meshes[0];
  mesh.name = format("stage{}", plan.meshes.size());
  mesh.ranks = Ranks(Rank(static_cast<std::size_t>(plan.world)), mesh.ranks.size());
  plan.world += static_cast<std::int64_t>(mesh.ranks.size());
  plan.meshes.push_back(std::move(mesh));
  for (std::size_t i = 0; i < model.graphs.size(); ++i)
    if (model.graphs[i].mesh.index() + 1 == plan.meshes.size())
      plan.graphs[i] = *std::ranges::find(stage.graphs, model.graphs[i].name,
                                          [](const GraphShardings& graph) { return graph.graph; });
}

}  // namespace

std::variant<PlannedModel, Infeasible> plan_stages(const graph::ModelGraphs& model,
                                                   const PlanSpec& spec) {
  if (spec.chunks > 1) return Infeasible{{ChunkedStages{spec.chunks}}};
  const std::vector<Grid> grids = grids_of(spec);
  const auto last_layers = balance_stages(model.at("train"), model.num_layers, spec.pipeline);
  if (const auto* infeasible = std::get_if<Infeasible>(&last_layers)) return *infeasible;
  Cut split = cut(model, std::get<0>(last_layers));
  if (auto infeasible = padded_table(split, grids)) return std::move(*infeasible);
  Plan plan;
  plan.world = 0;
  plan.graphs.resize(split.model.graphs.size());
  for (std::size_t stage = 0; stage < grids.size(); ++stage) {
    const auto specified = stage_spec(spec, grids, stage);
    if (const auto* infeasible = std::get_if<Infeasible>(&specified)) return *infeasible;
    auto planned = make_plan(graphs_on(split.model, MeshId(stage)), std::get<PlanSpec>(specified));
    if (auto* infeasible = std::get_if<Infeasible>(&planned)) return std::move(*infeasible);
    Plan& own = std::get<Plan>(planned);
    if (stage == 0) plan.batching = own.batching;
    plan.compute = own.compute;
    plan.checkpointing = own.checkpointing;
    plan.orders.push_back(pipeline::order_of(spec.pipeline.schedule, {stage, grids.size()},
                                             plan.batching.accumulation));
    add_stage(plan, std::move(own), split.model);
  }
  take_options(plan, spec);
  plan.layers = layers_of(std::get<0>(last_layers), model.num_layers);
  plan.edges = std::move(split.edges);
  return PlannedModel{std::move(split.model), std::move(plan)};
}

std::variant<PlannedModel, Infeasible> plan_model(graph::ModelGraphs model, const PlanSpec& spec) {
  if (spec.pipeline.stages > 1) return plan_stages(model, spec);
  auto made = make_plan(model, spec);
  if (auto* infeasible = std::get_if<Infeasible>(&made)) return std::move(*infeasible);
  return PlannedModel{std::move(model), std::move(std::get<Plan>(made))};
}

}  // namespace fourfold::plan
