#include "compile/use_cut_forms.h"

#include "base/error.h"
#include "base/format.h"
#include "graph/cut_forms.h"
#include "op/factor_choice.h"

namespace fourfold::compile {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using op::Sharding;

/// By how many ranks a plan shares the factors that an op wants whole; none where it shares none.
std::optional<std::int64_t> ranks_that_share(const op::FactorRule& rule,
                                             const std::vector<Sharding>& reads, const Mesh& mesh) {
  for (std::size_t i = 0; i < reads.size(); ++i)
    for (std::size_t dim = 0; dim < reads[i].dims.size(); ++dim) {
      const char factor = rule.operands[i][dim][0];
      if (reads[i].dims[dim].empty() || rule.cut_form.find(factor) == std::string::npos) continue;
      std::int64_t ranks = 1;
      for (const op::Cut& cut : reads[i].dims[dim]) ranks *= mesh.axes[cut.axis.index()].size;
      return ranks;
    }
  return std::nullopt;
}

class Carrier {
 public:
  Carrier(const Graph& source, const graph::WithCutForms& cut, const plan::GraphShardings& planned,
          const Mesh& mesh)
      : source_(source), cut_(cut), planned_(planned), mesh_(mesh) {
    result_.graph = planned.graph;
    result_.mesh = planned.mesh;
    result_.values.resize(cut.graph.values.size());
    for (std::size_t i = 0; i < cut.graph.values.size(); ++i)
      if (cut.value_origin[i]) result_.values[i] = planned.values[cut.value_origin[i]->index()];
  }

  plan::GraphShardings run() {
    for (std::size_t i = 0; i < cut_.graph.nodes.size(); ++i) {
      const std::size_t origin = cut_.node_origin[i];
      const bool is_first = i == 0 || cut_.node_origin[i - 1] != origin;
      const bool is_last = i + 1 == cut_.graph.nodes.size() || cut_.node_origin[i + 1] != origin;
      if (is_first && is_last)
        result_.nodes.push_back(planned_.nodes[origin]);
      else
        result_.nodes.push_back(row_of_form(cut_.graph.nodes[i], origin));
    }
    return std::move(result_);
  }

 private:
  /// The sharding in which a row reads a value: that of the op in whose place it stands, or, for a
  /// value between its rows, that in which the value is kept.
  const Sharding& seen(ValueId id, std::size_t origin) const {
    const Node& op = source_.nodes[origin];
    for (std::size_t i = 0; i < op.reads.size(); ++i)
      if (cut_.value_origin[id.index()] == op.reads[i]) return planned_.nodes[origin].reads[i];
    return result_.values[id.index()];
  }

  /// The factors of a row are cut as it sees what it reads, but for those that it wants whole.
  plan::NodeShardings row_of_form(const Node& node, std::size_t origin) {
    const op::FactorRule rule = op::factors(node.op, cut_.graph.shapes(node.reads));
    op::FactorChoice choice(rule, mesh_);
    for (std::size_t i = 0; i < node.reads.size(); ++i)
      choice.follow(i, seen(node.reads[i], origin));
    plan::NodeShardings shardings;
    std::vector<Sharding> claims;
    for (std::size_t i = 0; i < rule.operands.size(); ++i)
      (i < node.reads.size() ? shardings.reads : claims).push_back(choice.cuts_of(i));
    op::Propagation given = op::propagate(rule, shardings.reads, claims, mesh_);
    require(given.problem.empty(),
            [&] { return format("{} follows its rule: {}", op::name(node.op), given.problem); });
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (given.outputs[o].replicated()) given.outputs[o].dims.clear();
      given.outputs[o].mesh = planned_.mesh;
      if (cut_.value_origin[node.outputs[o].index()]) continue;
      Sharding& kept = result_.values[node.outputs[o].index()];
      kept = given.outputs[o];
      kept.partial.clear();
    }
    shardings.outputs = std::move(given.outputs);
    plan::put_on(shardings, planned_.mesh);
    return shardings;
  }

  const Graph& source_;
  const graph::WithCutForms& cut_;
  const plan::GraphShardings& planned_;
  const Mesh& mesh_;
  plan::GraphShardings result_;
};

}  // namespace

CutGraph use_cut_forms(const graph::Graph& graph, const plan::Plan& plan) {
  const plan::GraphShardings& planned = plan.of(graph.kind, graph.mesh);
  const Mesh& mesh = plan.meshes[graph.mesh.index()];
  graph::WithCutForms cut = graph::with_cut_forms(graph, [&](std::size_t node) {
    const op::FactorRule rule =
        op::factors(graph.nodes[node].op, graph.shapes(graph.nodes[node].reads));
    return rule.cut_form.empty() ? std::nullopt
                                 : ranks_that_share(rule, planned.nodes[node].reads, mesh);
  });
  plan::GraphShardings shardings = Carrier(graph, cut, planned, mesh).run();
  return {std::move(cut.graph), std::move(shardings)};
}

}  // namespace fourfold::compile
