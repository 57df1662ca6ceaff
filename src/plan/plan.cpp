#include "plan/plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::plan {
namespace {

/// The greatest divisor of `number` that is at most `limit`.
std::int64_t divisor_below(std::int64_t number, std::int64_t limit) {
  for (std::int64_t candidate = std::min(number, limit); candidate > 1; --candidate)
    if (number % candidate == 0) return candidate;
  return 1;
}

/// The graph whose ops say what the parameters are: the training graph where there is one.
const graph::Graph& annotated_graph(const graph::ModelGraphs& model) {
  for (const graph::Graph& graph : model.graphs)
    if (graph.name == "train") return graph;
  require(!model.graphs.empty(), "a model has graphs");
  return model.graphs[0];
}

}  // namespace

std::string to_text(const Infeasible& infeasible) {
  std::string text;
  for (const Infeasible::Problem& problem : infeasible.problems)
    text += (text.empty() ? "" : "\n") + problem.message;
  return text;
}

std::variant<Batching, Infeasible> solve_batching(const PlanSpec& spec) {
  require(spec.grid.data.has_value(), "the grid is settled before the batch");
  const std::int64_t replicas = *spec.grid.data * spec.grid.z;
  Batching batching{spec.global_batch_size, spec.micro_batch_size, replicas, 1, spec.seq_length};
  const std::int64_t at_once = batching.samples();
  if (batching.global_batch % at_once == 0) {
    batching.accumulation = batching.global_batch / at_once;
    return batching;
  }
  if (replicas == 1)
    return Infeasible{
        {{{"train.global_batch_size", "train.micro_batch_size"},
          format("train.global_batch_size = {} is not a multiple of train.micro_batch_size = {}; "
                 "set train.micro_batch_size = {}",
                 batching.global_batch, batching.micro_batch,
                 divisor_below(batching.global_batch, batching.micro_batch))}}};
  const std::string ways =
      batching.global_batch % replicas == 0
          ? format("set train.micro_batch_size = {}",
                   divisor_below(batching.global_batch / replicas, batching.micro_batch))
          : format("set train.global_batch_size = {}",
                   (batching.global_batch + at_once - 1) / at_once * at_once);
  return Infeasible{
      {{{"train.global_batch_size", "train.micro_batch_size", "parallel.data", "parallel.tensor.z"},
        format("train.global_batch_size = {} is not a multiple of the {} samples that all ranks "
               "process at once: train.micro_batch_size = {} x parallel.data = {} x "
               "parallel.tensor.z = {}; {}",
               batching.global_batch, at_once, batching.micro_batch, *spec.grid.data, spec.grid.z,
               ways)}}};
}

const GraphStates& Plan::of(std::string_view graph) const {
  const auto place =
      std::find_if(graphs.begin(), graphs.end(), [&](const auto& s) { return s.graph == graph; });
  require(place != graphs.end(), format("the plan knows the graph {}", graph));
  return *place;
}

std::variant<Plan, Infeasible> make_plan(const graph::ModelGraphs& model, const PlanSpec& spec) {
  auto batching = solve_batching(spec);
  if (auto* infeasible = std::get_if<Infeasible>(&batching)) return std::move(*infeasible);
  Plan plan;
  plan.meshes = {make_mesh(spec.grid)};
  plan.world = num_ranks(spec.grid);
  plan.batching = std::get<Batching>(batching);
  plan.compute = spec.compute;
  plan.checkpointing = spec.checkpointing;

  const graph::Graph& annotated = annotated_graph(model);
  auto annotation = annotate(annotated, plan.meshes[0], spec);
  if (auto* infeasible = std::get_if<Infeasible>(&annotation)) return std::move(*infeasible);
  PersistentStates persistent = persistent_states(annotated, std::get<0>(annotation));
  plan.graphs.resize(model.graphs.size());
  // Graphs that make all state and look at it come last: caches are met in the others first.
  const auto derive = [&](bool is_of_state) -> std::optional<Infeasible> {
    for (std::size_t i = 0; i < model.graphs.size(); ++i) {
      const graph::Graph& graph = model.graphs[i];
      if ((graph.name == "init" || graph.name == "digest") != is_of_state) continue;
      auto states = derive_states(graph, plan.meshes[0], std::get<0>(annotation), persistent);
      if (auto* infeasible = std::get_if<Infeasible>(&states)) return std::move(*infeasible);
      plan.graphs[i] = std::get<0>(std::move(states));
    }
    return std::nullopt;
  };
  for (const bool is_of_state : {false, true})
    if (auto infeasible = derive(is_of_state)) return std::move(*infeasible);
  return plan;
}

std::string to_text(const Plan& plan, const graph::ModelGraphs& model) {
  std::string text;
  for (const Mesh& mesh : plan.meshes) {
    text += format("mesh {}:", mesh.name);
    for (const Axis& axis : mesh.axes) text += format(" {} {}", axis.name, axis.size);
    text += format("   {} of {} ranks\n", mesh.ranks.size(), plan.world);
  }
  const Batching& b = plan.batching;
  text += format("batch: {} = {} micro x {} accumulation x {} data.z   {} tokens a sample\n",
                 b.global_batch, b.micro_batch, b.accumulation, b.replicas, b.length);
  text += format("precision: {}   activation checkpointing: {}\n", to_string(plan.compute),
                 plan.checkpointing.blocks == 0   ? std::string("none")
                 : plan.checkpointing.blocks == 1 ? std::string("full")
                                                  : format("every {}", plan.checkpointing.blocks));
  for (std::size_t i = 0; i < model.graphs.size(); ++i)
    for (std::size_t v = 0; v < model.graphs[i].values.size(); ++v) {
      const op::Sharding& sharding = plan.graphs[i].values[v];
      if (!sharding.replicated())
        text += format("{}: {} {}\n", model.graphs[i].name, model.graphs[i].values[v].name,
                       op::to_string(model.graphs[i].values[v].shape, sharding,
                                     plan.meshes[sharding.mesh.index()]));
    }
  return text;
}

}  // namespace fourfold::plan
