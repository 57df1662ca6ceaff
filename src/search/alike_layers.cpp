#include "search/alike_layers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "op/table.h"

namespace fourfold::search {
namespace {

using graph::Graph;
using graph::Node;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;

/// What two ops that do the same have in common: names, shapes, roles, rules.
std::string what_it_does(const Graph& graph, const Node& node) {
  std::string text(op::name(node.op));
  for (const auto* list : {&node.reads, &node.outputs})
    for (const ValueId id : *list) {
      const Value& value = graph.value(id);
      text += format(" {} {} {}", to_string(value.shape), static_cast<int>(value.role),
                     static_cast<int>(value.element));
    }
  const op::FactorRule rule = op::factors(node.op, graph.shapes(node.reads)).of_any_form();
  for (const op::OperandFactors& operand : rule.operands) {
    text += " :";
    for (std::size_t dim = 0; dim < operand.size(); ++dim) text += format(" {}", operand[dim]);
  }
  text += format(" {}/{}/{}/{}", rule.whole, static_cast<int>(rule.linear),
                 static_cast<int>(rule.reduction), rule.repeated);
  for (const auto& [factor, size] : rule.sizes) text += format(" {}{}", factor, size);
  return text;
}

/// The nodes of a layer in a phase, and a number for what each does.
struct Layer {
  std::vector<std::size_t> nodes, does;
};

/// Pairs of places in two layers whose ops do the same, in the order of both; as many as there may
/// be.
std::vector<std::pair<std::size_t, std::size_t>> same_places(const Layer& a, const Layer& b) {
  const std::size_t rows = a.does.size(), columns = b.does.size();
  std::vector<std::vector<std::size_t>> most(rows + 1, std::vector<std::size_t>(columns + 1));
  for (std::size_t i = rows; i-- > 0;)
    for (std::size_t j = columns; j-- > 0;)
      most[i][j] = a.does[i] == b.does[j] ? most[i + 1][j + 1] + 1
                                          : std::max(most[i + 1][j], most[i][j + 1]);
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (std::size_t i = 0, j = 0; i < rows && j < columns;)
    if (a.does[i] == b.does[j])
      places.emplace_back(i++, j++);
    else
      ++(most[i + 1][j] >= most[i][j + 1] ? i : j);
  return places;
}

std::vector<std::size_t> alike_ops(const Graph& graph) {
  std::map<std::pair<graph::Phase, std::int64_t>, Layer> layers;
  std::map<std::string, std::size_t> known;
  std::vector<std::size_t> numbers(graph.nodes.size());
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    numbers[node] = node;
    if (!graph.nodes[node].layer) continue;
    Layer& layer = layers[{graph.nodes[node].phase, *graph.nodes[node].layer}];
    layer.nodes.push_back(node);
    layer.does.push_back(
        known.try_emplace(what_it_does(graph, graph.nodes[node]), known.size()).first->second);
  }
  std::vector<std::pair<graph::Phase, const Layer*>> firsts;
  for (const auto& [key, layer] : layers) {
    bool is_like_another = false;
    for (const auto& [phase, first] : firsts) {
      if (phase != key.first) continue;
      const auto places = same_places(*first, layer);
      // The first and the last layer may have a few ops more or fewer.
      if (4 * places.size() < 3 * std::max(first->nodes.size(), layer.nodes.size())) continue;
      for (const auto& [of_first, of_layer] : places)
        numbers[layer.nodes[of_layer]] = first->nodes[of_first];
      is_like_another = true;
      break;
    }
    if (!is_like_another) firsts.emplace_back(key.first, &layer);
  }
  return numbers;
}

}  // namespace

Alike alike_layers(const Graph& graph) {
  Alike alike{alike_ops(graph), std::vector<std::size_t>(graph.values.size())};
  // What a value is known by: the number of an op, and which of its operands.
  using Place = std::pair<std::size_t, std::size_t>;
  std::vector<std::optional<Place>> places(graph.values.size());
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const Node& of = graph.nodes[node];
    for (std::size_t i = 0; i < of.reads.size() + of.outputs.size(); ++i) {
      const bool is_read = i < of.reads.size();
      const ValueId id = is_read ? of.reads[i] : of.outputs[i - of.reads.size()];
      std::optional<Place>& place = places[id.index()];
      const ValueRole role = graph.value(id).role;
      if (!place && role != ValueRole::gradient && is_read == (role == ValueRole::parameter))
        place = {alike.ops[node], i};
    }
  }
  std::map<std::tuple<bool, std::size_t, std::size_t>, std::size_t> numbers;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    const bool is_gradient = value.role == ValueRole::gradient && value.gradient_of;
    const std::optional<Place>& place = places[is_gradient ? value.gradient_of->index() : i];
    alike.values[i] = i;
    if (place)
      alike.values[i] =
          numbers.try_emplace({is_gradient, place->first, place->second}, i).first->second;
  }
  return alike;
}

}  // namespace fourfold::search
