#include "plan/plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::plan {
namespace {

/// The mesh of a job of one rank.
Mesh single_rank_mesh() {
  return {"main", {{"data", 1}, {"z", 1}, {"y", 1}, {"x", 1}}, {Rank(0)}};
}

/// The greatest divisor of `number` that is at most `limit`.
std::int64_t divisor_below(std::int64_t number, std::int64_t limit) {
  for (std::int64_t candidate = std::min(number, limit); candidate > 1; --candidate)
    if (number % candidate == 0) return candidate;
  return 1;
}

/// States of all values: those that no node makes as annotated (replicated), the others by the
/// factor rules.
std::variant<std::vector<op::Sharding>, Infeasible> derive_shardings(const graph::Graph& graph) {
  std::vector<op::Sharding> states(graph.values.size());
  for (const graph::Node& node : graph.nodes) {
    std::vector<op::Sharding> reads, outputs;
    for (const graph::ValueId id : node.reads) reads.push_back(states[id.index()]);
    for (const graph::ValueId id : node.outputs) outputs.push_back(states[id.index()]);
    const op::Propagation result =
        op::propagate(op::factors(node.op, graph.shapes(node.reads)), reads, outputs);
    if (!result.problem.empty())
      return Infeasible{
          {{{}, format("{} in graph {}: {}", op::name(node.op), graph.name, result.problem)}}};
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      states[node.outputs[i].index()] = result.outputs[i];
  }
  return states;
}

}  // namespace

std::string to_text(const Infeasible& infeasible) {
  std::string text;
  for (const Infeasible::Problem& problem : infeasible.problems)
    text += (text.empty() ? "" : "\n") + problem.message;
  return text;
}

std::variant<Batching, Infeasible> solve_batching(const PlanSpec& spec) {
  Batching batching{spec.global_batch_size, spec.micro_batch_size, 1, 1, spec.seq_length};
  const std::int64_t at_once = batching.micro_batch * batching.replicas;
  if (batching.global_batch % at_once != 0)
    return Infeasible{
        {{{"train.global_batch_size", "train.micro_batch_size"},
          format("train.global_batch_size = {} is not a multiple of train.micro_batch_size = {}; "
                 "set train.micro_batch_size = {}",
                 batching.global_batch, batching.micro_batch,
                 divisor_below(batching.global_batch, batching.micro_batch))}}};
  batching.accumulation = batching.global_batch / at_once;
  return batching;
}

const std::vector<op::Sharding>& Plan::of(std::string_view graph) const {
  const auto place = std::find_if(shardings.begin(), shardings.end(),
                                  [&](const auto& s) { return s.graph == graph; });
  require(place != shardings.end(), format("the plan knows the graph {}", graph));
  return place->values;
}

std::variant<Plan, Infeasible> make_plan(const graph::ModelGraphs& model, const PlanSpec& spec) {
  auto batching = solve_batching(spec);
  if (auto* infeasible = std::get_if<Infeasible>(&batching)) return std::move(*infeasible);
  Plan plan;
  plan.meshes = {single_rank_mesh()};
  plan.batching = std::get<Batching>(batching);
  plan.compute = spec.compute;
  plan.checkpointing = spec.checkpointing;
  for (const graph::Graph& graph : model.graphs) {
    auto states = derive_shardings(graph);
    if (auto* infeasible = std::get_if<Infeasible>(&states)) return std::move(*infeasible);
    plan.shardings.push_back({graph.name, std::get<0>(std::move(states))});
  }
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
      const op::Sharding& sharding = plan.shardings[i].values[v];
      if (!sharding.replicated())
        text += format("{}: {} {}\n", model.graphs[i].name, model.graphs[i].values[v].name,
                       op::to_string(model.graphs[i].values[v].shape, sharding,
                                     plan.meshes[sharding.mesh.index()]));
    }
  return text;
}

}  // namespace fourfold::plan
