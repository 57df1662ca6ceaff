#include "graph/graph.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::graph {
std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  fail_internal("every phase has a name");
}

namespace {

std::string join_names(const Graph& graph, std::span<const ValueId> ids) {
  std::string text;
  for (const ValueId id : ids) text += (text.empty() ? "" : ", ") + graph.value(id).name;
  return text;
}

}  // namespace

std::optional<ValueId> Graph::find(std::string_view value_name) const {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].name == value_name) return ValueId(i);
  return std::nullopt;
}

std::vector<Shape> Graph::shapes(std::span<const ValueId> ids) const {
  std::vector<Shape> result;
  result.reserve(ids.size());
  for (const ValueId id : ids) result.push_back(value(id).shape);
  return result;
}

bool is_persistent(ValueRole role) {
  return role == ValueRole::parameter || role == ValueRole::moment || role == ValueRole::average ||
         role == ValueRole::rounded || role == ValueRole::counter || role == ValueRole::cache;
}

namespace {

constexpr std::string_view average_prefix = "average/";

}  // namespace

std::string name_of_average(std::string_view parameter) {
  return format("{}{}", average_prefix, parameter);
}

bool is_weight(const Value& value) {
  return value.role == ValueRole::parameter ||
         (value.role == ValueRole::average && value.name.starts_with(average_prefix));
}

bool is_sum(ValueRole role) {
  return role == ValueRole::gradient || role == ValueRole::result;
}

std::string to_text(const Graph& graph) {
  std::string text = format("graph {}\n", op::to_string(graph.kind));
  for (const Node& node : graph.nodes) {
    std::string shapes;
    for (const ValueId id : node.outputs)
      shapes += " " + fourfold::to_string(graph.value(id).shape);
    const std::string attributes = op::attributes_text(node.op, std::nullopt);
    text +=
        format("{:<9}{:<28}{} -> {}   {}{}{}\n", to_string(node.phase), op::name(node.op),
               join_names(graph, node.reads), join_names(graph, node.outputs),
               shapes.empty() ? "" : shapes.substr(1), attributes.empty() ? "" : "  ", attributes);
  }
  return text;
}

namespace {

/// A weight is kept in the type of sums, and read by what computes in the type of the
/// computation: compile/ rounds it on the way.
bool is_rounded(const Node& node, const op::Operands& operands, std::size_t index,
                const Value& value) {
  const bool is_kept_wide = is_weight(value) || value.role == ValueRole::received;
  return index < node.reads.size() && is_kept_wide && value.element == op::Element::accumulate &&
         operands[index].element == op::Element::compute;
}

/// A product that is the gradient of a weight stays in the type of its sums.
bool is_unrounded(const Node& node, std::size_t index, const Value& value) {
  return index >= node.reads.size() && value.role == ValueRole::gradient &&
         value.element == op::operands(op::with_unrounded(node.op))[index].element;
}

}  // namespace

double flops_of(const Graph& graph, const Node& node) {
  std::vector<Shape> shapes = graph.shapes(node.reads);
  std::ranges::move(graph.shapes(node.outputs), std::back_inserter(shapes));
  return op::flops(node.op, shapes);
}

void check(const Graph& graph) {
  std::vector<int> producers(graph.values.size(), 0);
  for (const Node& node : graph.nodes) {
    const std::string_view op_name = op::name(node.op);
    const auto operands = op::operands(node.op);
    require(operands.size() == node.reads.size() + node.outputs.size(),
            [&] { return format("{} has all its operands", op_name); });
    for (const ValueId id : node.reads) {
      const ValueRole role = graph.value(id).role;
      const bool given = is_persistent(role) || role == ValueRole::input ||
                         role == ValueRole::step || role == ValueRole::received;
      require(given || producers[id.index()] > 0, [&] {
        return format("{} reads {} after it was made", op_name, graph.value(id).name);
      });
    }
    const std::vector<Shape> expected = op::outputs(node.op, graph.shapes(node.reads));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const Value& output = graph.value(node.outputs[i]);
      require(output.shape == expected[i],
              [&] { return format("{} gives {} its shape", op_name, output.name); });
      require(is_sum(output.role) || is_persistent(output.role) ||
                  producers[node.outputs[i].index()] == 0,
              [&] { return format("only sums have several producers, {} is none", output.name); });
      ++producers[node.outputs[i].index()];
    }
    std::optional<op::Element> any_element;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const ValueId id =
          i < node.reads.size() ? node.reads[i] : node.outputs[i - node.reads.size()];
      const op::Element element = graph.value(id).element;
      if (operands[i].element == op::Element::compute && op::takes_any_element(node.op)) {
        const op::Element common = any_element.value_or(element);
        require(element == common,
                [&] { return format("operands of {} have one element type", op_name); });
        any_element = common;
        continue;
      }
      const bool fits = element == operands[i].element ||
                        is_rounded(node, operands, i, graph.value(id)) ||
                        is_unrounded(node, i, graph.value(id));
      require(fits, [&] {
        return format("operand {} of {} has the element type of the op", operands[i].name, op_name);
      });
    }
  }
}

const Graph& ModelGraphs::at(op::ProgramKind kind, MeshId mesh) const {
  const auto place = std::find_if(graphs.begin(), graphs.end(),
                                  [&](const Graph& g) { return g.kind == kind && g.mesh == mesh; });
  require(place != graphs.end(),
          [&] { return format("the model has a graph named {}", op::to_string(kind)); });
  return *place;
}

}  // namespace fourfold::graph
