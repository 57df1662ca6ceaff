#include "plan/plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "base/units.h"
#include "plan/axonn.h"
#include "plan/layout_text.h"
#include "plan/pins.h"

namespace fourfold::plan {
namespace {

/// The graph that a layout is chosen on: the training graph where there is one.
const graph::Graph& leading_graph(const graph::ModelGraphs& model) {
  for (const graph::Graph& graph : model.graphs)
    if (graph.kind == op::ProgramKind::train) return graph;
  require(!model.graphs.empty(), "a model has graphs");
  return model.graphs[0];
}

}  // namespace

std::variant<Batching, Infeasible> solve_batching(const PlanSpec& spec) {
  const std::int64_t replicas = spec.grid.data * spec.grid.z;
  Batching batching{
      spec.global_batch_size, spec.micro_batch_size, replicas, 1, spec.seq_length, spec.chunks};
  if (batching.global_batch % batching.samples() != 0)
    return Infeasible{
        {UnevenBatch{spec.global_batch_size, spec.micro_batch_size, spec.grid.data, spec.grid.z}}};
  if (batching.micro_batch % batching.chunks != 0)
    return Infeasible{{UnevenChunks{spec.micro_batch_size, spec.chunks}}};
  batching.accumulation = batching.global_batch / batching.samples();
  return batching;
}

const GraphShardings& Plan::of(op::ProgramKind graph, MeshId mesh) const {
  const auto place = std::find_if(graphs.begin(), graphs.end(), [&](const auto& shardings) {
    return shardings.graph == graph && shardings.mesh == mesh;
  });
  require(place != graphs.end(),
          [&] { return format("the plan knows the graph {}", op::to_string(graph)); });
  return *place;
}

namespace {

/// The average of a parameter lies as that does, at rest and where it is used.
void add_averages(Layout& layout, const graph::Graph& train) {
  std::map<std::string, ParameterLayout> averages;
  for (const auto& [name, parameter] : layout.parameters)
    if (const std::string average = graph::name_of_average(name); train.find(average))
      averages.emplace(average, parameter);
  layout.parameters.merge(averages);
}

}  // namespace

std::variant<Layout, Infeasible> make_layout(const graph::ModelGraphs& model, const PlanSpec& spec,
                                             const Mesh& mesh) {
  const graph::Graph& train = leading_graph(model);
  if (spec.layout) {
    auto read = parse_layout(spec.layout->text, spec.layout->name, train, mesh);
    if (auto* faults = std::get_if<std::vector<Diagnostic>>(&read))
      return Infeasible{{BadLayout{std::move(*faults)}}};
    return std::get<Layout>(std::move(read));
  }
  auto pinned = pinned_shardings(train, mesh, spec.pins);
  if (auto* infeasible = std::get_if<Infeasible>(&pinned)) return std::move(*infeasible);
  const PinnedShardings& pins = std::get<PinnedShardings>(pinned);
  auto made = axonn(train, mesh, {spec.shard_sequence, spec.shard_states, pins.weights});
  auto* layout = std::get_if<Layout>(&made);
  if (layout == nullptr) return made;
  add_averages(*layout, train);
  for (const auto& [name, sharding] : pins.activations)
    layout->activations[name] =
        keep_as(sharding, train.value(train.find(name).value()).shape.rank());
  return made;
}

Layout whole_layout(const graph::ModelGraphs& model, const Mesh& mesh) {
  const graph::Graph& train = leading_graph(model);
  const Axes axes = axes_of(mesh);
  Layout layout{.samples = {axes.data, axes.z}, .parameters = {}, .activations = {}, .ops = {}};
  for (const graph::Value& value : train.values)
    if (value.role == graph::ValueRole::parameter) layout.parameters.try_emplace(value.name);
  add_averages(layout, train);
  return layout;
}

namespace {

/// What an op cannot work on is a fault of the layout that is given.
Infeasible of_layout(const GivenLayout& layout, const Infeasible& infeasible) {
  BadLayout bad;
  for (const Problem& problem : infeasible.problems)
    if (const auto* broken = std::get_if<BrokenRule>(&problem))
      bad.faults.push_back(
          {layout.name, 0, 0, 1,
           format("{} in graph {}: {}", broken->op, op::to_string(broken->graph), broken->problem),
           "change how the layout cuts the op, or what it reads", ""});
  return bad.faults.empty() ? infeasible : Infeasible{{std::move(bad)}};
}

/// The pin that a plan cannot have, where there would be one without it; what stands in
/// `infeasible` otherwise.
Infeasible blamed(const graph::ModelGraphs& model, const PlanSpec& spec, Infeasible infeasible) {
  const auto* broken = std::get_if<BrokenRule>(&infeasible.problems.at(0));
  if (broken == nullptr || spec.pins.empty()) return infeasible;
  PlanSpec fewer = spec;
  fewer.pins.clear();
  const graph::Graph& train = leading_graph(model);
  const Mesh mesh = make_mesh(spec.grid);
  const auto plain = make_layout(model, fewer, mesh);
  if (!std::holds_alternative<Layout>(plain)) return infeasible;
  for (const Pin& pin : spec.pins) {
    fewer.pins.push_back(pin);
    if (std::holds_alternative<Plan>(make_plan(model, fewer))) continue;
    BadPin bad{BadPin::Why::graph, pin.pattern, to_string(pin), {}};
    bad.other =
        format("{} in graph {}: {}", broken->op, op::to_string(broken->graph), broken->problem);
    for (const graph::Value& value : train.values) {
      const auto place = std::get<Layout>(plain).parameters.find(value.name);
      if (place == std::get<Layout>(plain).parameters.end() || !matches(pin.pattern, value.name))
        continue;
      bad.tensor = value.name;
      bad.instead = op::to_string(value.shape, place->second.rest, mesh);
      break;
    }
    return {{bad}};
  }
  return infeasible;
}

}  // namespace

namespace {

/// The plan of a mesh, with what it takes over from its spec as it is.
std::variant<Plan, Infeasible> plan_mesh(const graph::ModelGraphs& model, const Mesh& mesh,
                                         const Layout& layout, const Batching& batching,
                                         const PlanSpec& spec) {
  PersistentShardings persistent = persistent_shardings(leading_graph(model), layout);
  std::vector<GraphShardings> graphs(model.graphs.size());
  // Graphs that make all state and look at it come last: caches are met in the others first.
  for (const bool is_of_state : {false, true})
    for (std::size_t i = 0; i < model.graphs.size(); ++i) {
      const graph::Graph& graph = model.graphs[i];
      if (op::is_of_state(graph.kind) != is_of_state) continue;
      auto shardings = derive_shardings(graph, mesh, layout, persistent);
      if (auto* infeasible = std::get_if<Infeasible>(&shardings)) return std::move(*infeasible);
      graphs[i] = std::get<0>(std::move(shardings));
    }
  return Plan{
      .world = static_cast<std::int64_t>(mesh.ranks.size()),
      .meshes = {mesh},
      .batching = batching,
      .compute = spec.compute,
      .checkpointing = spec.checkpointing,
      .overlap = spec.overlap,
      .bucket_bytes = spec.bucket_bytes,
      .cached_gathers = spec.cached_gathers,
      .memory_limit = spec.memory_limit,
      .rounds_gradients = spec.rounds_gradients && accumulation_type(spec.compute) != spec.compute,
      .graphs = std::move(graphs),
      .edges = {},
      .orders = {pipeline::order_of(pipeline::Schedule::one_f_one_b, {}, batching.accumulation)},
      .layers = {},
      .reshard = {},
      .schedule = {}};
}

/// What pins never have whole, and the plan has.
std::vector<Problem> left_whole(const graph::ModelGraphs& model, const PlanSpec& spec,
                                const Layout& layout, const Plan& plan) {
  if (std::ranges::none_of(spec.pins, &Pin::is_never_whole)) return {};
  const graph::Graph& train = leading_graph(model);
  const auto pinned = pinned_shardings(train, plan.meshes[0], spec.pins);
  const auto* pins = std::get_if<PinnedShardings>(&pinned);
  return pins == nullptr ? std::vector<Problem>()
                         : left_whole(train, *pins, layout, plan.of(train.kind).values);
}

}  // namespace

std::variant<Plan, Infeasible> make_plan(const graph::ModelGraphs& model, const PlanSpec& spec) {
  const auto batching = solve_batching(spec);
  if (const auto* infeasible = std::get_if<Infeasible>(&batching)) return *infeasible;
  const Mesh mesh = make_mesh(spec.grid);
  const auto layout = make_layout(model, spec, mesh);
  if (const auto* infeasible = std::get_if<Infeasible>(&layout)) return *infeasible;
  auto made = plan_mesh(model, mesh, std::get<Layout>(layout), std::get<Batching>(batching), spec);
  if (auto* infeasible = std::get_if<Infeasible>(&made); infeasible != nullptr && spec.layout)
    return of_layout(*spec.layout, *infeasible);
  if (auto* infeasible = std::get_if<Infeasible>(&made))
    return blamed(model, spec, std::move(*infeasible));
  if (auto problems = left_whole(model, spec, std::get<Layout>(layout), std::get<Plan>(made));
      !problems.empty())
    return Infeasible{std::move(problems)};
  return made;
}

std::variant<Plan, Infeasible> make_plan(const graph::ModelGraphs& model, const Mesh& mesh,
                                         const Layout& layout, const Batching& batching,
                                         DType compute, Checkpointing checkpointing) {
  PlanSpec spec;
  spec.compute = compute;
  spec.checkpointing = checkpointing;
  return plan_mesh(model, mesh, layout, batching, spec);
}

std::string to_string(const Checkpointing& checkpointing) {
  if (checkpointing.keeps_products) return "selective";
  if (checkpointing.layers == 1) return "full";
  if (checkpointing.layers > 1) return format("every {}", checkpointing.layers);
  const std::int64_t full = checkpointing.first_full,
                     selective = std::max<std::int64_t>(checkpointing.first_selective - full, 0);
  if (full == 0 && selective == 0) return checkpointing.is_auto ? "auto" : "none";
  std::string text;
  if (full > 0) text = format("full for {}", counted(full, "layer"));
  if (full > 0 && selective > 0) text += format(", selective for the next {}", selective);
  if (full == 0) text = format("selective for {}", counted(selective, "layer"));
  return text;
}

bool Plan::repeats_any() const {
  return checkpointing_of_meshes.empty()
             ? checkpointing.repeats_any()
             : std::ranges::any_of(checkpointing_of_meshes, &Checkpointing::repeats_any);
}

std::vector<std::int64_t> layers_on(const Plan& plan, MeshId mesh, std::int64_t num_layers) {
  std::vector<std::int64_t> numbers = plan.layers, result;
  if (numbers.empty()) numbers = {num_layers};
  std::int64_t layer = 0;
  for (std::size_t stage = 0; stage < numbers.size(); ++stage)
    for (const std::int64_t end = layer + numbers[stage]; layer < end; ++layer)
      if (plan.mesh_of_stage(stage) == mesh) result.push_back(layer);
  return result;
}

std::string checkpointing_text(const Plan& plan) {
  if (plan.checkpointing_of_meshes.empty()) return to_string(plan.checkpointing);
  std::string text;
  const std::int64_t all = std::reduce(plan.layers.begin(), plan.layers.end());
  for (std::size_t mesh = 0; mesh < plan.meshes.size(); ++mesh) {
    Checkpointing its = plan.checkpointing_of_meshes[mesh];
    const std::vector<std::int64_t> layers = layers_on(plan, MeshId(mesh), all);
    const auto below = [&](std::int64_t end) {
      return std::ranges::count_if(layers, [&](std::int64_t layer) { return layer < end; });
    };
    its.first_full = below(its.first_full);
    its.first_selective = below(its.first_selective);
    text += format("{}{}: {}", text.empty() ? "" : "; ", plan.meshes[mesh].name,
                   its.repeats_any() ? to_string(its) : "none");
  }
  return text;
}

std::string not_overlapped(const Overlap& overlap) {
  std::string names;
  const auto add = [&](bool overlaps, std::string_view name) {
    if (!overlaps) names += format("{}{}", names.empty() ? "" : ", ", name);
  };
  add(overlap.all_reduce, "all_reduce");
  add(overlap.reduce_scatter, "reduce_scatter");
  add(overlap.all_gather, "all_gather");
  add(overlap.send_recv, "send_recv");
  return names;
}

std::string to_string(const LeftOut& left) {
  if (left.size == 0) return format("no factor {} may be cut", left.factor);
  return format("factor {} of {} stays whole: {} ranks do not divide it", left.factor, left.size,
                left.ranks);
}

std::string to_text(const Plan& plan, const graph::ModelGraphs& model) {
  std::string text;
  for (const Mesh& mesh : plan.meshes) {
    text += format("mesh {}:", mesh.name);
    for (const Axis& axis : mesh.axes) text += format(" {} {}", axis.name, axis.size);
    text += format("   {} of {} ranks\n", mesh.ranks.size(), plan.world);
  }
  const Batching& b = plan.batching;
  text += format("batch: {} = {} micro x {} accumulation x {} data.z   length {}\n", b.global_batch,
                 b.micro_batch, b.accumulation, b.replicas, b.length);
  if (b.chunks > 1) text += format("chunks of a micro-batch: {}\n", b.chunks);
  text += format("precision: {}   activation checkpointing: {}\n", to_string(plan.compute),
                 checkpointing_text(plan));
  if (plan.rounds_gradients) text += format("gradients: reduced in {}\n", to_string(plan.compute));
  if (const std::string names = not_overlapped(plan.overlap); !names.empty())
    text += format("not beside computation: {}\n", names);
  if (plan.overlap.weight_gradients != WeightGradients::automatic)
    text += format("gradients of weights: {}\n",
                   plan.overlap.weight_gradients == WeightGradients::beside
                       ? "beside the rest of the backward pass"
                       : "in turn");
  for (const GraphShardings& graph : plan.graphs)
    for (const LeftOut& left : graph.left_out)
      text += format("{}: {}: {}\n", op::to_string(graph.graph), left.op, to_string(left));
  for (std::size_t i = 0; i < model.graphs.size(); ++i)
    for (std::size_t v = 0; v < model.graphs[i].values.size(); ++v) {
      const op::Sharding& sharding = plan.graphs[i].values[v];
      if (!sharding.replicated())
        text += format("{}: {} {}\n", op::to_string(model.graphs[i].kind),
                       model.graphs[i].values[v].name,
                       op::to_string(model.graphs[i].values[v].shape, sharding,
                                     plan.meshes[sharding.mesh.index()]));
    }
  return text;
}

}  // namespace fourfold::plan
