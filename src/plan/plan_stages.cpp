#include <algorithm>
#include <iterator>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "graph/update.h"
#include "pipeline/choose_orders.h"
#include "plan/balance_stages.h"
#include "plan/pins.h"
#include "plan/plan.h"

namespace fourfold::plan {
namespace {

std::int64_t replicas_of(const Grid& grid) {
  return grid.z * grid.data.value();
}

/// The grids of all meshes.
std::vector<Grid> grids_of(const PlanSpec& spec) {
  if (!spec.pipeline.grids.empty()) return spec.pipeline.grids;
  return std::vector<Grid>(static_cast<std::size_t>(spec.pipeline.meshes()), spec.grid);
}

/// The spec of one mesh: its grid, and the part of a micro-batch that is then a rank's.
std::variant<PlanSpec, Infeasible> mesh_spec(const PlanSpec& spec, const std::vector<Grid>& grids,
                                             std::size_t mesh) {
  const std::int64_t samples = spec.micro_batch_size * replicas_of(grids[0]),
                     replicas = replicas_of(grids[mesh]);
  if (samples % replicas != 0) return Infeasible{{UnevenStage{mesh, samples, replicas}}};
  PlanSpec result = spec;
  result.grid = grids[mesh];
  result.pipeline = {};
  result.micro_batch_size = samples / replicas;
  return result;
}

/// By stage, how many it has.
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

/// The graphs of all meshes, and what they send each other.
struct Cut {
  graph::ModelGraphs model;
  std::vector<Edge> edges;
};

/// Cuts the graphs that compute something; those that start state and look at it are each mesh's
/// own.
Cut cut(const graph::ModelGraphs& model, const std::vector<std::int64_t>& last_layers,
        std::size_t meshes) {
  Cut result;
  for (const graph::Graph& graph : model.graphs) {
    if (op::is_of_state(graph.kind)) continue;
    Stages split = split_stages(graph, last_layers, meshes);
    std::ranges::move(split.graphs, std::back_inserter(result.model.graphs));
    std::ranges::move(split.edges, std::back_inserter(result.edges));
  }
  for (std::size_t mesh = 0; mesh < meshes; ++mesh) {
    const std::vector<graph::Graph> own = graphs_on(result.model, MeshId(mesh)).graphs;
    for (graph::Graph graph : {graph::init_graph(own), graph::digest_graph(own)}) {
      graph.mesh = MeshId(mesh);
      result.model.graphs.push_back(std::move(graph));
    }
  }
  result.model.num_layers = model.num_layers;
  return result;
}

/// A table that goes from one mesh to another leaves each rank of both a row: what has none would
/// receive nothing.
std::optional<Infeasible> padded_table(const Cut& cut, const std::vector<Grid>& grids) {
  for (const Edge& edge : cut.edges) {
    const graph::Graph& sender = cut.model.at(edge.graph, edge.from);
    const graph::Value& value = sender.value(*sender.find(edge.value));
    if (!graph::is_weight(value)) continue;
    for (const Grid& grid : grids)
      if (const std::int64_t ranks = grid.x * grid.y * grid.z, rows = value.shape[0];
          (rows + ranks - 1) / ranks * (ranks - 1) >= rows)
        return Infeasible{{PaddedTransfer{value.name, value.shape[0], ranks}}};
  }
  return std::nullopt;
}

/// Takes over what the plan of the stages of one mesh says of it.
void add_mesh(Plan& plan, Plan own, const graph::ModelGraphs& model, std::string_view name) {
  Mesh& mesh = own.meshes[0];
  mesh.name = format("{}{}", name, plan.meshes.size());
  mesh.ranks = Ranks(Rank(static_cast<std::size_t>(plan.world)), mesh.ranks.size());
  plan.world += static_cast<std::int64_t>(mesh.ranks.size());
  plan.meshes.push_back(std::move(mesh));
  for (std::size_t i = 0; i < model.graphs.size(); ++i)
    if (model.graphs[i].mesh.index() + 1 == plan.meshes.size())
      plan.graphs[i] = *std::ranges::find(own.graphs, model.graphs[i].kind,
                                          [](const GraphShardings& graph) { return graph.graph; });
}

/// What a micro-batch costs each stage, in flops of a rank. What makes gradients of parameters
/// alone can have a task of its own.
std::vector<pipeline::StageCost> stage_costs(const graph::ModelGraphs& model,
                                             const std::vector<Grid>& grids, std::size_t stages) {
  std::vector<pipeline::StageCost> costs(stages);
  for (std::size_t mesh = 0; mesh < grids.size(); ++mesh) {
    const graph::Graph& train = model.at(op::ProgramKind::train, MeshId(mesh));
    const auto ranks = static_cast<double>(num_ranks(grids[mesh]));
    for (const graph::Node& node : train.nodes) {
      if (node.phase == graph::Phase::update) continue;
      pipeline::StageCost& cost = costs[node.stage];
      const double flops = graph::flops_of(train, node) / ranks;
      const bool is_of_weights = std::ranges::all_of(node.outputs, [&](graph::ValueId id) {
        return train.value(id).role == graph::ValueRole::gradient;
      });
      if (node.phase == graph::Phase::forward)
        cost.forward_s += flops;
      else
        (is_of_weights ? cost.weight_backward_s : cost.backward_s) += flops;
    }
  }
  return costs;
}

/// The orders of all meshes; a delay of the weights' part that is left open is settled by flops, as
/// if what is sent took no time.
std::optional<Infeasible> set_orders(Plan& plan, const PipelineSpec& spec,
                                     std::vector<pipeline::StageCost> costs) {
  const std::size_t stages = costs.size();
  plan.schedule = {.schedule = spec.schedule,
                   .stages_per_mesh = spec.stages_per_mesh,
                   .weight_delay = spec.weight_delay};
  const std::vector<pipeline::Edge> edges = pipeline::chain(stages);
  auto chosen = pipeline::choose_orders(
      plan.schedule, plan.meshes.size(), plan.batching.accumulation,
      {std::move(costs), edges, std::vector<pipeline::EdgeCost>(edges.size())});
  if (const auto* refusal = std::get_if<pipeline::Refusal>(&chosen))
    return Infeasible{{RefusedSchedule{*refusal}}};
  auto& [orders, timing, delay] = std::get<pipeline::ChosenOrders>(chosen);
  plan.orders = std::move(orders);
  using Kind = pipeline::WeightDelay::Kind;
  plan.schedule.weight_delay =
      delay ? pipeline::WeightDelay{Kind::fixed, *delay} : pipeline::WeightDelay{};
  return std::nullopt;
}

/// How a value lies when it leaves its mesh or arrives there. Results are summed up before.
op::Sharding sharding_of(const graph::ModelGraphs& model, const Plan& plan, op::ProgramKind kind,
                         const std::string& value, MeshId mesh) {
  const graph::Graph& graph = model.at(kind, mesh);
  const graph::ValueId id = *graph.find(value);
  if (graph.value(id).role == graph::ValueRole::result) return {mesh, {}, {}};
  op::Sharding sharding = plan.of(kind, mesh).values[id.index()];
  sharding.partial.clear();
  return sharding;
}

}  // namespace

std::variant<PlannedModel, Infeasible> plan_stages(const graph::ModelGraphs& model,
                                                   const PlanSpec& spec) {
  if (spec.chunks > 1) return Infeasible{{ChunkedStages{spec.chunks}}};
  const PipelineSpec& pipeline = spec.pipeline;
  if (pipeline.stages % pipeline.stages_per_mesh != 0)
    return Infeasible{{UnevenStages{pipeline.stages, pipeline.stages_per_mesh}}};
  const std::vector<Grid> grids = grids_of(spec);
  const auto last_layers =
      balance_stages(model.at(op::ProgramKind::train), model.num_layers, pipeline);
  if (const auto* infeasible = std::get_if<Infeasible>(&last_layers)) return *infeasible;
  if (auto unused = unused_pins(model.at(op::ProgramKind::train), spec.pins); !unused.empty())
    return Infeasible{std::move(unused)};
  Cut split = cut(model, std::get<0>(last_layers), grids.size());
  if (auto infeasible = padded_table(split, grids)) return std::move(*infeasible);
  Plan plan;
  plan.world = 0;
  plan.graphs.resize(split.model.graphs.size());
  for (std::size_t mesh = 0; mesh < grids.size(); ++mesh) {
    auto specified = mesh_spec(spec, grids, mesh);
    if (const auto* infeasible = std::get_if<Infeasible>(&specified)) return *infeasible;
    PlanSpec& own_spec = std::get<PlanSpec>(specified);
    const graph::ModelGraphs graphs = graphs_on(split.model, MeshId(mesh));
    own_spec.pins = pins_of(graphs.at(op::ProgramKind::train, MeshId(mesh)), spec.pins);
    auto planned = make_plan(graphs, own_spec);
    if (auto* infeasible = std::get_if<Infeasible>(&planned)) return std::move(*infeasible);
    Plan& own = std::get<Plan>(planned);
    if (mesh == 0) plan.batching = own.batching;
    plan.compute = own.compute;
    plan.checkpointing = own.checkpointing;
    add_mesh(plan, std::move(own), split.model, pipeline.stages_per_mesh == 1 ? "stage" : "mesh");
  }
  const auto stages = static_cast<std::size_t>(pipeline.stages);
  if (auto infeasible = set_orders(plan, pipeline, stage_costs(split.model, grids, stages)))
    return std::move(*infeasible);
  for (Edge& edge : split.edges) {
    edge.sent = sharding_of(split.model, plan, edge.graph, edge.value, edge.from);
    edge.received = sharding_of(split.model, plan, edge.graph, edge.into, edge.to);
  }
  take_options(plan, spec);
  plan.reshard = pipeline.reshard;
  plan.layers = layers_of(std::get<0>(last_layers), model.num_layers);
  plan.edges = std::move(split.edges);
  return PlannedModel{std::move(split.model), std::move(plan)};
}

std::int64_t most_warm_ups(const Plan& plan) {
  const bool is_eager = plan.schedule.schedule == pipeline::Schedule::eager_one_f_one_b;
  return is_eager ? static_cast<std::int64_t>(plan.meshes.size()) - 1 : 0;
}

void limit_warm_ups(Plan& plan, std::int64_t more) {
  if (most_warm_ups(plan) == 0) return;
  const auto stages = static_cast<std::int64_t>(plan.meshes.size());
  const std::int64_t delay = plan.schedule.weight_delay.micros;
  plan.schedule.caps.clear();
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t after = stages - 1 - stage;
    plan.schedule.caps.emplace_back(1 + after + std::min(more, after) + delay);
  }
  auto orders =
      pipeline::make_orders(plan.schedule, plan.meshes.size(), plan.batching.accumulation);
  plan.orders = std::get<std::vector<pipeline::Order>>(std::move(orders));
}

std::variant<PlannedModel, Infeasible> plan_model(graph::ModelGraphs model, const PlanSpec& spec) {
  if (spec.pipeline.stages > 1) return plan_stages(model, spec);
  auto made = make_plan(model, spec);
  if (auto* infeasible = std::get_if<Infeasible>(&made)) return std::move(*infeasible);
  return PlannedModel{std::move(model), std::move(std::get<Plan>(made))};
}

}  // namespace fourfold::plan
