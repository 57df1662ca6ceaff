#include "search/linears.h"

#include <algorithm>
#include <optional>
#include <ranges>

namespace fourfold::search {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using graph::ValueRole;
using Axes = std::vector<AxisId>;

bool has(std::string_view factors, char factor) {
  return factors.find(factor) != std::string_view::npos;
}

bool has(const Axes& axes, AxisId axis) {
  return std::ranges::find(axes, axis) != axes.end();
}

/// The axes that cut a tensor anywhere.
Axes axes_of(const op::Sharding& sharding) {
  Axes axes;
  for (const op::Cuts& cuts : sharding.dims)
    for (const op::Cut& cut : cuts) axes.push_back(cut.axis);
  return axes;
}

double local_elements(const Shape& shape, const op::Sharding& sharding, const Mesh& mesh) {
  return static_cast<double>(op::local_shape(shape, sharding, mesh).elements());
}

/// The linear that a node is in the operand `w`, if it is one.
std::optional<LinearOnMesh> linear_of(const Graph& train, const Node& node,
                                      const plan::NodeShardings& shardings,
                                      const plan::GraphShardings& all, const Mesh& mesh,
                                      std::size_t w) {
  const op::FactorRule rule = op::factors(node.op, train.shapes(node.reads)).of_any_form();
  const graph::Value& weight = train.value(node.reads[w]);
  if (weight.role != ValueRole::parameter || rule.linear != op::FactorRule::Linear::one)
    return std::nullopt;
  const std::string& of_output = rule.operands[node.reads.size()].letters();
  std::optional<std::size_t> input;
  LinearOnMesh linear;
  linear.weight = weight.name;
  const op::OperandFactors& dims = rule.operands[w];
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    const char factor = dims[dim][0];  // parameters have a factor a dim
    const bool is_kept = has(of_output, factor);
    (is_kept ? linear.sizes.n : linear.sizes.k) *= static_cast<double>(weight.shape[dim]);
    for (std::size_t i = 0; !is_kept && i < node.reads.size(); ++i)
      if (i != w && has(rule.operands[i].letters(), factor)) input = i;
    const auto& sharding = shardings.reads[w];
    if (dim >= sharding.dims.size()) continue;
    for (const op::Cut& cut : sharding.dims[dim])
      (is_kept ? linear.kept : linear.contracted).push_back(cut.axis);
  }
  if (!input) return std::nullopt;
  const Shape &in = train.value(node.reads[*input]).shape,
              &out = train.value(node.outputs[0]).shape;
  linear.sizes.m = static_cast<double>(out.elements()) / linear.sizes.n;
  linear.weight_elements = local_elements(weight.shape, shardings.reads[w], mesh);
  linear.input_elements = local_elements(in, shardings.reads[*input], mesh);
  linear.output_elements = local_elements(out, shardings.outputs[0], mesh);
  const Axes in_use = axes_of(shardings.reads[w]);
  for (const AxisId axis : axes_of(all.values[node.reads[w].index()]))
    if (!has(in_use, axis)) linear.at_rest.push_back(axis);
  for (const AxisId axis : axes_of(shardings.outputs[0]))
    if (!has(in_use, axis) && !has(linear.at_rest, axis)) linear.replicas.push_back(axis);
  const Axes of_input = axes_of(all.values[node.reads[*input].index()]);
  std::ranges::stable_partition(linear.kept, [&](AxisId axis) { return !has(of_input, axis); });
  linear.input = node.reads[*input];
  return linear;
}

/// By value: whether a node makes its gradient, or a term of it.
std::vector<bool> values_with_gradients(const Graph& train) {
  std::vector<bool> result(train.values.size(), false);
  for (const Node& node : train.nodes)
    for (const ValueId id : node.outputs)
      if (const auto& of = train.value(id).gradient_of) result[of->index()] = true;
  return result;
}

}  // namespace

std::vector<LinearOnMesh> linears_of(const Graph& train, const plan::Plan& plan) {
  const plan::GraphShardings& shardings = plan.of(train.kind, train.mesh);
  const Mesh& mesh = plan.meshes[train.mesh.index()];
  const std::vector<bool> has_gradient = values_with_gradients(train);
  std::vector<LinearOnMesh> linears;
  for (std::size_t i = 0; i < train.nodes.size(); ++i) {
    const Node& node = train.nodes[i];
    if (node.phase != graph::Phase::forward) continue;
    for (std::size_t w = 0; w < node.reads.size(); ++w)
      if (auto linear = linear_of(train, node, shardings.nodes[i], shardings, mesh, w)) {
        linear->has_input_gradient = has_gradient[linear->input.index()];
        linears.push_back(std::move(*linear));
      }
  }
  return linears;
}

std::vector<double> axonn_elements(const std::vector<LinearOnMesh>& linears, const Mesh& mesh,
                                   double micros) {
  std::vector<double> sent(mesh.axes.size(), 0);
  for (const LinearOnMesh& linear : linears) {
    // Along several axes one after another, the last first, which leaves the next one a share.
    const auto along = [&](const Axes& axes, double times, double size) {
      for (const AxisId axis : axes | std::views::reverse) {
        const auto ranks = static_cast<double>(mesh.axes[axis.index()].size);
        sent[axis.index()] += times * ring_reduce_scatter(ranks, size);
        size /= ranks;
      }
      return size;
    };
    along(linear.contracted, 2 * micros, linear.output_elements);
    if (linear.has_input_gradient) along(linear.kept, 2 * micros, linear.input_elements);
    const double rest = along(linear.at_rest, 2 * micros, linear.weight_elements);
    along(linear.replicas, 2, rest);
  }
  return sent;
}

}  // namespace fourfold::search
