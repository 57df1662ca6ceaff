#include "graph/builder.h"

#include "base/error.h"
#include "base/format.h"
#include "op/blocks.h"

namespace fourfold::graph {
namespace {

op::Element element_of(DType dtype) {
  switch (dtype) {
    case DType::i32:
      return op::Element::i32;
    case DType::i64:
      return op::Element::i64;
    case DType::u64:
      return op::Element::u64;
    case DType::f64:
      return op::Element::f64;
    default:
      fail_internal("block fields are i32, i64, u64 or f64");
  }
}

}  // namespace

ValueId Builder::add(Value value) {
  const ValueId id(graph_.values.size());
  require(by_name_.emplace(value.name, id).second,
          [&] { return format("value names are unique: {}", value.name); });
  value.label = value.gradient_label = label_;
  graph_.values.push_back(std::move(value));
  return id;
}

std::optional<ValueId> Builder::find(const std::string& name) const {
  const auto place = by_name_.find(name);
  return place == by_name_.end() ? std::nullopt : std::optional(place->second);
}

ValueId Builder::given(const std::string& name, const Shape& shape, op::Element element,
                       ValueRole role, std::optional<op::Op> init) {
  if (const auto known = find(name)) {
    require(graph_.value(*known).shape == shape, [&] { return format("{} has one shape", name); });
    return *known;
  }
  return add({name, shape, element, role, std::move(init)});
}

ValueId Builder::parameter(const std::string& name, const Shape& shape, const op::Op& init) {
  return given(name, shape, op::Element::accumulate, ValueRole::parameter, init);
}

ValueId Builder::field(std::string_view name) {
  const auto field = op::find_block_field(name);
  require(field.has_value(), [&] { return format("there is a block field {}", name); });
  const ValueRole role = name.starts_with("step.") ? ValueRole::step : ValueRole::result;
  return given(std::string(name), {}, element_of(field->dtype), role);
}

std::vector<ValueId> Builder::apply(const op::Op& op, std::vector<ValueId> reads,
                                    const std::string& name) {
  const op::Operands operands = op::operands(op);
  const std::vector<Shape> shapes = op::outputs(op, graph_.shapes(reads));
  std::vector<ValueId> outputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const op::Operand& operand = operands[reads.size() + i];
    const bool is_of_reads = op.is<op::Add>();
    const op::Element element = is_of_reads ? graph_.value(reads[0]).element : operand.element;
    const std::string value_name = i == 0 ? name : format("{}.{}", name, operand.name);
    outputs.push_back(add({value_name, shapes[i], element, ValueRole::activation, std::nullopt}));
  }
  apply_to(op, std::move(reads), outputs);
  return outputs;
}

ValueId Builder::apply_one(const op::Op& op, std::vector<ValueId> reads, const std::string& name) {
  const std::vector<ValueId> outputs = apply(op, std::move(reads), name);
  require(outputs.size() == 1, "apply_one is for ops with one output");
  return outputs[0];
}

void Builder::apply_to(const op::Op& op, std::vector<ValueId> reads, std::vector<ValueId> outputs) {
  graph_.nodes.push_back(
      {op, std::move(reads), std::move(outputs), phase_, layer_, label_, stage_});
}

Graph Builder::take() {
  check(graph_);
  return std::move(graph_);
}

}  // namespace fourfold::graph
