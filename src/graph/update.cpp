#include "graph/update.h"

#include <algorithm>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "graph/autodiff.h"

namespace fourfold::graph {
namespace {

/// Matrices and embeddings decay; biases and gains do not. A bias may have several dims (one per
/// head), so what counts is the name's last part, before the number that one of several weights of
/// a sum has.
bool decays(const Value& parameter) {
  std::string_view name = parameter.name;
  name = name.substr(0, name.find_last_not_of("0123456789") + 1);
  return name.ends_with(".weight") || name.ends_with(".weight.");
}

void for_each_persistent(std::span<const Graph> graphs, Builder& builder,
                         const std::function<void(const Value&)>& visit) {
  for (const Graph& graph : graphs)
    for (const Value& value : graph.values)
      if (is_persistent(value.role) && !builder.find(value.name)) visit(value);
}

/// Every parameter, with its gradient and new moments; what all share is not set.
std::vector<UpdateValues> trained_parameters(Builder& builder, const Optimizer& optimizer) {
  std::vector<UpdateValues> list;
  const std::size_t count = builder.graph().values.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Value value = builder.graph().values[i];
    if (value.role != ValueRole::parameter) continue;
    const auto gradient = builder.find(gradient_name(value.name));
    require(gradient.has_value(), format("{} takes part in the loss", value.name));
    UpdateValues& values = list.emplace_back();
    values.weight = ValueId(i);
    values.gradient = *gradient;
    values.decays = decays(value);
    const op::Op zero = op::Fill{.value = 0, .shape = value.shape};
    for (const op::Moment& moment : optimizer.moments(value)) {
      const ValueId id = builder.given(format("{}/{}", moment.name, value.name), value.shape,
                                       op::Element::accumulate, ValueRole::moment, zero);
      builder.set_labels(id, value.label, value.label);
      values.moments.push_back(id);
    }
  }
  return list;
}

}  // namespace

Optimizer optimizer_of(const OptimizerSpec& spec) {
  Optimizer optimizer;
  optimizer.grad_clip = spec.grad_clip;
  visit_optimizer(spec, [&]<class Row>(const Row& settings) {
    optimizer.moments = [](const Value&) {
      return std::vector<op::Moment>(std::begin(Row::update.moments),
                                     std::end(Row::update.moments));
    };
    optimizer.add_nodes = [settings, decay = spec.weight_decay](Builder& builder,
                                                                const UpdateValues& values) {
      Row row = settings;
      row.weight_decay = values.decays ? decay : 0;
      std::vector<ValueId> read = {values.gradient, values.lr, values.scale, values.applied},
                           written = {values.weight};
      if (Row::update.counts_updates) read.push_back(values.updates);
      written.insert(written.end(), values.moments.begin(), values.moments.end());
      written.push_back(values.found);
      builder.apply_to(row, std::move(read), std::move(written));
    };
  });
  return optimizer;
}

std::vector<UpdateNodes> add_update(Builder& builder, const Optimizer& optimizer,
                                    std::int64_t nominal_count) {
  builder.set_phase(Phase::update);
  builder.set_label("update");
  std::vector<UpdateValues> list = trained_parameters(builder, optimizer);
  const ValueId squared_norm = builder.field("result.squared_norm"),
                found = builder.field("result.non_finite");
  const ValueId lr = builder.field("step.lr"), scale = builder.field("result.scale"),
                applied = builder.field("result.applied");
  const ValueId updates = builder.given("updates", {}, op::Element::i64, ValueRole::counter,
                                        op::Op(op::Fill{.value = 0, .shape = {}}));
  const ValueId non_finite = builder.given("non_finite", {}, op::Element::i64, ValueRole::counter,
                                           op::Op(op::Fill{.value = 0, .shape = {}}));
  for (const UpdateValues& values : list)
    builder.apply_to(op::SquaredNorm{}, {values.gradient}, {squared_norm});
  const ValueId valid_count = builder.field("result.valid_count"),
                votes = builder.field("result.votes");
  builder.apply_to(op::Vote{},
                   {builder.field("step.vote"), squared_norm, builder.field("result.loss_sum"),
                    valid_count, non_finite, lr},
                   {votes});
  builder.apply_to(op::UpdateControl{.nominal_count = nominal_count, .clip = optimizer.grad_clip},
                   {squared_norm, valid_count, votes},
                   {builder.field("result.grad_norm"), scale, applied});
  std::vector<UpdateNodes> nodes;
  for (UpdateValues& values : list) {
    values.lr = lr;
    values.scale = scale;
    values.applied = applied;
    values.updates = updates;
    values.found = found;
    const std::size_t begin = builder.graph().nodes.size();
    optimizer.add_nodes(builder, values);
    nodes.push_back({values.weight, begin, builder.graph().nodes.size()});
  }
  builder.apply_to(op::CountUpdate{}, {applied}, {updates});
  builder.apply_to(op::CountNonFinite{}, {found}, {non_finite});
  return nodes;
}

void add_averages(Builder& builder, double decay) {
  builder.set_phase(Phase::update);
  builder.set_label("average");
  const ValueId applied = builder.field("result.applied");
  const std::size_t count = builder.graph().values.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Value value = builder.graph().values[i];
    if (value.role != ValueRole::parameter) continue;
    const ValueId average = builder.given(name_of_average(value.name), value.shape,
                                          op::Element::accumulate, ValueRole::average, value.init);
    builder.set_labels(average, value.label, value.label);
    builder.apply_to(op::MovingAverage{decay}, {ValueId(i), applied}, {average});
  }
}

void read_averages(ModelGraphs& model) {
  const auto find = [&](op::ProgramKind kind) {
    return std::ranges::find(model.graphs, kind, &Graph::kind);
  };
  const auto train = find(op::ProgramKind::train), evaluate = find(op::ProgramKind::evaluate);
  if (train == model.graphs.end() || evaluate == model.graphs.end()) return;
  for (Value& value : evaluate->values) {
    if (value.role != ValueRole::parameter) continue;
    const std::string average = name_of_average(value.name);
    if (!train->find(average)) continue;
    value.name = average;
    value.role = ValueRole::average;
  }
}

Graph init_graph(std::span<const Graph> graphs) {
  Builder builder(op::ProgramKind::init);
  for_each_persistent(graphs, builder, [&](const Value& value) {
    require(value.init.has_value(), format("{} has a start", value.name));
    const ValueId id =
        builder.given(value.name, value.shape, value.element, value.role, value.init);
    builder.set_labels(id, value.label, value.gradient_label);
    std::vector<ValueId> reads;
    if (op::operands(*value.init).size() > 1) reads.push_back(builder.field("step.seed"));
    builder.apply_to(*value.init, std::move(reads), {id});
  });
  return builder.take();
}

Graph digest_graph(std::span<const Graph> graphs) {
  Builder builder(op::ProgramKind::digest);
  for_each_persistent(graphs, builder, [&](const Value& value) {
    if (value.role == ValueRole::cache) return;
    const ValueId id =
        builder.given(value.name, value.shape, value.element, value.role, value.init);
    builder.set_labels(id, value.label, value.gradient_label);
    const ValueId digest = builder.apply_one(op::Digest{random_stream(value.name)}, {id},
                                             format("digest/{}", value.name));
    builder.set_role(digest, ValueRole::output);
  });
  return builder.take();
}

}  // namespace fourfold::graph
