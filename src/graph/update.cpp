#include "graph/update.h"

#include <functional>

#include "base/error.h"
#include "base/format.h"
#include "graph/autodiff.h"

namespace fourfold::graph {
namespace {

struct Trained {
  ValueId weight, gradient, m, v;
};

std::vector<Trained> trained_parameters(Builder& builder) {
  std::vector<Trained> list;
  const std::size_t count = builder.graph().values.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Value value = builder.graph().values[i];
    if (value.role != ValueRole::parameter) continue;
    const auto gradient = builder.graph().find(gradient_name(value.name));
    require(gradient.has_value(), format("{} takes part in the loss", value.name));
    const op::Op zero = op::Fill{.value = 0, .shape = value.shape};
    const auto moment = [&](std::string_view which) {
      return builder.given(format("{}/{}", which, value.name), value.shape, op::Element::accumulate,
                           ValueRole::moment, zero);
    };
    list.push_back({ValueId(i), *gradient, moment("m"), moment("v")});
  }
  return list;
}

/// Matrices and embeddings decay; biases and gains do not. A bias may have several dims (one per
/// head), so what counts is the name's last part.
bool decays(const Value& parameter) {
  return parameter.name.ends_with(".weight");
}

void for_each_persistent(std::span<const Graph> graphs, Builder& builder,
                         const std::function<void(const Value&)>& visit) {
  for (const Graph& graph : graphs)
    for (const Value& value : graph.values)
      if (is_persistent(value.role) && !builder.graph().find(value.name)) visit(value);
}

}  // namespace

void add_update(Builder& builder, const AdamWSpec& spec, std::int64_t nominal_tokens) {
  builder.set_phase(Phase::update);
  const std::vector<Trained> list = trained_parameters(builder);
  const ValueId squared_norm = builder.field("result.squared_norm"),
                non_finite = builder.field("result.non_finite");
  const ValueId lr = builder.field("step.lr"), scale = builder.field("result.scale"),
                applied = builder.field("result.applied");
  const ValueId updates = builder.given("updates", {}, op::Element::i64, ValueRole::counter,
                                        op::Op(op::Fill{.value = 0, .shape = {}}));
  for (const Trained& t : list) builder.apply_to(op::SquaredNorm{}, {t.gradient}, {squared_norm});
  for (const Trained& t : list) {
    builder.apply_to(op::CountNonFinite{}, {t.m}, {non_finite});
    builder.apply_to(op::CountNonFinite{}, {t.v}, {non_finite});
  }
  const ValueId token_count = builder.field("result.token_count"),
                votes = builder.field("result.votes");
  builder.apply_to(op::Vote{},
                   {builder.field("step.vote"), squared_norm, builder.field("result.loss_sum"),
                    token_count, non_finite, lr},
                   {votes});
  builder.apply_to(op::UpdateControl{.nominal_tokens = nominal_tokens, .clip = spec.grad_clip},
                   {squared_norm, token_count, votes},
                   {builder.field("result.grad_norm"), scale, applied});
  for (const Trained& t : list) {
    const double decay = decays(builder.graph().value(t.weight)) ? spec.weight_decay : 0;
    builder.apply_to(op::AdamW{spec.beta1, spec.beta2, spec.epsilon, decay},
                     {t.gradient, lr, scale, applied, updates}, {t.weight, t.m, t.v});
  }
  builder.apply_to(op::CountUpdate{}, {applied}, {updates});
}

Graph init_graph(std::span<const Graph> graphs) {
  Builder builder("init");
  for_each_persistent(graphs, builder, [&](const Value& value) {
    require(value.init.has_value(), format("{} has a start", value.name));
    const ValueId id =
        builder.given(value.name, value.shape, value.element, value.role, value.init);
    std::vector<ValueId> reads;
    if (std::holds_alternative<op::InitNormal>(*value.init))
      reads.push_back(builder.field("step.seed"));
    builder.apply_to(*value.init, std::move(reads), {id});
  });
  return builder.take();
}

Graph digest_graph(std::span<const Graph> graphs) {
  Builder builder("digest");
  for_each_persistent(graphs, builder, [&](const Value& value) {
    if (value.role == ValueRole::cache) return;
    const ValueId id =
        builder.given(value.name, value.shape, value.element, value.role, value.init);
    const ValueId digest = builder.apply_one(op::Digest{random_stream(value.name)}, {id},
                                             format("digest/{}", value.name));
    builder.set_role(digest, ValueRole::output);
  });
  return builder.take();
}

}  // namespace fourfold::graph
