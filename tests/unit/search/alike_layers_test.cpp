#include "search/alike_layers.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "unit/search/sought.h"

namespace fourfold::search {
namespace {

std::size_t number_of(const graph::Graph& graph, const Alike& alike, const std::string& name) {
  return alike.values[graph.find(name).value().index()];
}

TEST(AlikeLayers, of_a_gpt_are_all_and_nothing_else_is_alike) {
  Wanted wanted = gpt_on({.data = 2});
  wanted.setup.gpt.num_layers = 5;
  const graph::ModelGraphs model = wanted.setup.graphs();
  const graph::Graph& graph = model.at(op::ProgramKind::train);
  const Alike alike = alike_layers(graph);
  for (const std::string name : {"mlp.up.weight", "mlp.up", "attn.qkv", "ln1.bias"})
    for (const std::string layer : {"blocks.1.", "blocks.4."})
      EXPECT_EQ(number_of(graph, alike, layer + name), number_of(graph, alike, "blocks.0." + name))
          << layer << name;
  EXPECT_NE(number_of(graph, alike, "blocks.0.mlp.up"),
            number_of(graph, alike, "blocks.0.attn.qkv"));
  std::map<std::size_t, std::size_t> sizes;
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) ++sizes[alike.ops[node]];
  std::size_t alone = 0;
  for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
    const std::string& name = graph.value(graph.nodes[node].outputs[0]).name;
    if (name.find("blocks.") != std::string::npos && graph.nodes[node].layer)
      EXPECT_GE(sizes[alike.ops[node]], 4U) << name;
    else
      alone += sizes[alike.ops[node]] == 1 ? 1 : 0;
  }
  EXPECT_GE(alone, 10U) << "embeddings, the head, the loss";
  // A gradient is as its weight.
  std::map<std::size_t, std::set<std::size_t>> gradients;
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].role == graph::ValueRole::gradient && graph.values[i].gradient_of)
      gradients[alike.values[graph.values[i].gradient_of->index()]].insert(alike.values[i]);
  for (const auto& [weight, numbers] : gradients) EXPECT_EQ(numbers.size(), 1U) << weight;
}

TEST(AlikeLayers, of_other_shapes_are_not_alike) {
  const graph::ModelGraphs model = unet_on({.data = 2}).setup.graphs();
  const graph::Graph& graph = model.at(op::ProgramKind::train);
  const Alike alike = alike_layers(graph);
  for (std::size_t i = 0; i < graph.values.size(); ++i)
    EXPECT_EQ(graph.values[i].shape, graph.values[alike.values[i]].shape) << graph.values[i].name;
}

}  // namespace
}  // namespace fourfold::search
