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
  return grid.z * grid.data;
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

/// What the plans of the meshes say together.
struct Meshes {
  std::int64_t world = 0;
  std::vector<Mesh> meshes;
  std::vector<GraphShardings> graphs;  // in the order of the model's graphs

  explicit Meshes(const graph::ModelGraphs& model) : graphs(model.graphs.size()) {}

  void add(Plan own, const graph::ModelGraphs& model, std::string_view name) {
    Mesh& mesh = own.meshes[0];
    mesh.name = format("{}{}", name, meshes.size());
    mesh.ranks = Ranks(Rank(static_cast<std::size_t>(world)), mesh.ranks.size());
    world += static_cast<std::int64_t>(mesh.ranks.size());
    meshes.push_back(std::move(mesh));
    for (std::size_t i = 0; i < model.graphs.size(); ++i)
      if (model.graphs[i].mesh.index() + 1 == meshes.size())
        graphs[i] = *std::ranges::find(own.graphs, model.graphs[i].kind,
                                       [](const GraphShardings& graph) { return graph.graph; });
  }
  const GraphShardings& of(op::ProgramKind kind, MeshId mesh) const {
    return *std::ranges::find_if(graphs, [&](const GraphShardings& graph) {
      return graph.graph == kind && graph.mesh == mesh;
    });
  }
};

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

/// In which order each mesh does its part, and by which schedule.
struct Course {
  std::vector<pipeline::Order> orders;
  pipeline::ScheduleSpec schedule;
};
/// The orders of so many meshes; a delay of the weights' part that is left open is settled by
/// flops, as if what is sent took no time.
std::variant<Course, Infeasible> course_of(const PipelineSpec& spec, std::size_t meshes,
                                           std::int64_t micros,
                                           std::vector<pipeline::StageCost> costs) {
  const std::size_t stages = costs.size();
  Course course{{},
                {.schedule = spec.schedule,
                 .stages_per_mesh = spec.stages_per_mesh,
                 .weight_delay = spec.weight_delay}};
  const std::vector<pipeline::Edge> edges = pipeline::chain(stages);
  auto chosen = pipeline::choose_orders(
      course.schedule, meshes, micros,
      {std::move(costs), edges, std::vector<pipeline::EdgeCost>(edges.size())});
  if (const auto* refusal = std::get_if<pipeline::Refusal>(&chosen))
    return Infeasible{{RefusedSchedule{*refusal}}};
  auto& [orders, timing, delay] = std::get<pipeline::ChosenOrders>(chosen);
  course.orders = std::move(orders);
  using Kind = pipeline::WeightDelay::Kind;
  course.schedule.weight_delay =
      delay ? pipeline::WeightDelay{Kind::fixed, *delay} : pipeline::WeightDelay{};
  return course;
}

/// How a value lies when it leaves its mesh or arrives there. Results are summed up before.
op::Sharding sharding_of(const graph::ModelGraphs& model, const Meshes& meshes,
                         op::ProgramKind kind, const std::string& value, MeshId mesh) {
  const graph::Graph& graph = model.at(kind, mesh);
  const graph::ValueId id = *graph.find(value);
  if (graph.value(id).role == graph::ValueRole::result) return {mesh, {}, {}};
  op::Sharding sharding = meshes.of(kind, mesh).values[id.index()];
  sharding.partial.clear();
  return sharding;
}

/// The plan for a model on several meshes.
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
  Meshes meshes(split.model);
  Batching batching;  // on the first mesh
  for (std::size_t mesh = 0; mesh < grids.size(); ++mesh) {
    auto specified = mesh_spec(spec, grids, mesh);
    if (const auto* infeasible = std::get_if<Infeasible>(&specified)) return *infeasible;
    PlanSpec& own_spec = std::get<PlanSpec>(specified);
    const graph::ModelGraphs graphs = graphs_on(split.model, MeshId(mesh));
    own_spec.pins = pins_of(graphs.at(op::ProgramKind::train, MeshId(mesh)), spec.pins);
    auto planned = make_plan(graphs, own_spec);
    if (auto* infeasible = std::get_if<Infeasible>(&planned)) return std::move(*infeasible);
    Plan& own = std::get<Plan>(planned);
    if (mesh == 0) batching = own.batching;
    meshes.add(std::move(own), split.model, pipeline.stages_per_mesh == 1 ? "stage" : "mesh");
  }
  auto course =
      course_of(pipeline, grids.size(), batching.accumulation,
                stage_costs(split.model, grids, static_cast<std::size_t>(pipeline.stages)));
  if (auto* infeasible = std::get_if<Infeasible>(&course)) return std::move(*infeasible);
  auto& [orders, schedule] = std::get<Course>(course);
  for (Edge& edge : split.edges) {
    edge.sent = sharding_of(split.model, meshes, edge.graph, edge.value, edge.from);
    edge.received = sharding_of(split.model, meshes, edge.graph, edge.into, edge.to);
  }
  Plan plan{
      .world = meshes.world,
      .meshes = std::move(meshes.meshes),
      .batching = batching,
      .compute = spec.compute,
      .checkpointing = spec.checkpointing,
      .overlap = spec.overlap,
      .bucket_bytes = spec.bucket_bytes,
      .cached_gathers = spec.cached_gathers,
      .memory_limit = spec.memory_limit,
      .rounds_gradients = spec.rounds_gradients && accumulation_type(spec.compute) != spec.compute,
      .graphs = std::move(meshes.graphs),
      .edges = std::move(split.edges),
      .orders = std::move(orders),
      .layers = layers_of(std::get<0>(last_layers), model.num_layers),
      .reshard = pipeline.reshard,
      .schedule = std::move(schedule)};
  return PlannedModel{std::move(split.model), std::move(plan)};
}

/// The schedule of an eager pipeline that begins at most so many micro-batches more ahead than 1F1B
/// does; 0 is 1F1B.
pipeline::ScheduleSpec limited(pipeline::ScheduleSpec schedule, std::int64_t stages,
                               std::int64_t more) {
  const std::int64_t delay = schedule.weight_delay.micros;
  schedule.caps.clear();
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const std::int64_t after = stages - 1 - stage;
    schedule.caps.emplace_back(1 + after + std::min(more, after) + delay);
  }
  return schedule;
}

}  // namespace

std::int64_t most_warm_ups(const Plan& plan) {
  const bool is_eager = plan.schedule.schedule == pipeline::Schedule::eager_one_f_one_b;
  return is_eager ? static_cast<std::int64_t>(plan.meshes.size()) - 1 : 0;
}

Plan with_fit(const Plan& plan, const Fit& fit) {
  Plan result = plan;
  if (fit.memory_limit) result.memory_limit = fit.memory_limit;
  if (fit.cached_gathers) result.cached_gathers = fit.cached_gathers;
  const bool is_alike = std::ranges::none_of(fit.checkpointing, &Checkpointing::repeats_any);
  if (fit.checkpointing.size() == 1 || (is_alike && !fit.checkpointing.empty()))
    result.checkpointing = fit.checkpointing[0];
  else
    result.checkpointing_of_meshes = fit.checkpointing;
  if (fit.warm_ups && most_warm_ups(plan) > 0) {
    result.schedule =
        limited(plan.schedule, static_cast<std::int64_t>(plan.meshes.size()), *fit.warm_ups);
    result.orders = std::get<std::vector<pipeline::Order>>(
        pipeline::make_orders(result.schedule, plan.meshes.size(), plan.batching.accumulation));
  }
  return result;
}

std::variant<PlannedModel, Infeasible> plan_model(graph::ModelGraphs model, const PlanSpec& spec) {
  if (spec.pipeline.stages > 1) return plan_stages(model, spec);
  auto made = make_plan(model, spec);
  if (auto* infeasible = std::get_if<Infeasible>(&made)) return std::move(*infeasible);
  return PlannedModel{std::move(model), std::move(std::get<Plan>(made))};
}

}  // namespace fourfold::plan
