#include "plan/annotate.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::plan {
namespace {

using graph::Graph;
using graph::Node;
using graph::Phase;
using graph::ValueId;
using graph::ValueRole;

class Annotator {
 public:
  Annotator(const Graph& graph, const Mesh& mesh, const PlanSpec& spec)
      : graph_(graph), mesh_(mesh), spec_(spec) {
    result_.axes = axes_of(mesh);
    result_.shard_sequence = spec.shard_sequence;
    columns_.resize(graph.values.size(), Columns::hidden);
  }

  std::variant<Annotation, Infeasible> run() {
    for (const graph::Value& value : graph_.values)
      if (value.role == ValueRole::parameter) result_.parameters[value.name] = {};
    for (const Node& node : graph_.nodes)
      if (node.phase == Phase::forward) visit(node);
    if (!infeasible_.problems.empty()) return infeasible_;
    return result_;
  }

 private:
  using Dims = std::vector<std::size_t>;

  void visit(const Node& node) {
    Columns columns = node.reads.empty() ? Columns::hidden : columns_[node.reads[0].index()];
    if (std::holds_alternative<op::Embedding>(node.op)) {
      annotate_table(node.reads[1]);
      columns = Columns::hidden;
    } else if (std::holds_alternative<op::AddPositions>(node.op)) {
      annotate_positions(node.reads[1]);
    } else if (const auto* matmul = std::get_if<op::Matmul>(&node.op)) {
      columns = annotate_matrix(*matmul, node, columns);
    }
    for (const ValueId id : node.outputs) columns_[id.index()] = columns;
  }

  Columns annotate_matrix(const op::Matmul& matmul, const Node& node, Columns input) {
    const graph::Value& weight = graph_.value(node.reads[1]);
    const bool is_weight =
        weight.role == ValueRole::parameter || weight.role == ValueRole::received;
    require(is_weight && !matmul.transpose_a, "a model multiplies activations by parameters");
    ParameterStates& states = result_.parameters[weight.name];
    if (matmul.transpose_b) {  // a tied table
      if (!states.use) annotate_table(node.reads[1]);
      return Columns::vocabulary;
    }
    require(!states.use, "a matrix is used once, or is the table of the embedding");
    Dims rows, columns;
    for (std::size_t dim = 0; dim < weight.shape.rank(); ++dim)
      (static_cast<std::int64_t>(dim) < matmul.b_rows ? rows : columns).push_back(dim);
    if (is_logits(node.outputs[0])) {
      states = make(weight, rows, {}, {}, {});
      cut_vocabulary(states, weight.shape, columns.back(), {result_.axes.x, result_.axes.y});
      states.columns = Columns::vocabulary;
      finish(states, weight, rows, {});
      return Columns::vocabulary;
    }
    // Attention needs queries, keys and values of a head together.
    if (columns.size() == 3) columns.erase(columns.begin());
    const bool is_normal = input == Columns::hidden;
    const AxisId inner = is_normal ? result_.axes.y : result_.axes.x,
                 outer = is_normal ? result_.axes.x : result_.axes.y;
    states = make(weight, rows, inner, columns, outer);
    states.columns = is_normal ? Columns::inner : Columns::hidden;
    finish(states, weight, rows, columns);
    return states.columns;
  }

  void annotate_table(ValueId id) {
    const graph::Value& table = graph_.value(id);
    ParameterStates states = make(table, {}, {}, {}, {});
    cut_vocabulary(states, table.shape, 0, {result_.axes.x, result_.axes.y, result_.axes.z});
    states.columns = Columns::vocabulary;
    // At rest the rows are cut by z as well; what products see has the other two cuts.
    states.rest = *states.use;
    if (size(result_.axes.z) > 1) states.use->dims[0].pop_back();
    if (states.use->replicated()) states.use->dims.clear();
    states.is_received = table.role == ValueRole::received;
    if (states.is_received) states.rest = op::Sharding{MeshId(0), {}, {}};
    finish_moments(states, table, {0});
    result_.parameters[table.name] = states;
  }

  /// Positions are few: rows are cut on z only where that divides them.
  void annotate_positions(ValueId id) {
    const graph::Value& table = graph_.value(id);
    ParameterStates states = make(table, {}, {}, {1}, result_.axes.y);
    states.rest = *states.use;
    add_cut(states.rest, table.shape, {0}, result_.axes.z);
    finish_moments(states, table, {0});
    result_.parameters.at(table.name) = states;
  }

  /// Use of a matrix: rows cut by one axis, columns by another.
  ParameterStates make(const graph::Value& weight, const Dims& rows, std::optional<AxisId> row_axis,
                       const Dims& columns, std::optional<AxisId> column_axis) {
    ParameterStates states;
    states.use = op::Sharding{MeshId(0), {}, {}};
    if (row_axis && !add_cut(*states.use, weight.shape, rows, *row_axis))
      note_indivisible(weight, "rows", rows, *row_axis, *states.use);
    if (column_axis && !add_cut(*states.use, weight.shape, columns, *column_axis))
      note_indivisible(weight, "columns", columns, *column_axis, *states.use);
    return states;
  }

  /// Rest and moments of a matrix whose use is settled: z cuts whole rows; where rows are heads
  /// that it does not divide, columns.
  void finish(ParameterStates& states, const graph::Value& weight, const Dims& rows,
              const Dims& columns) {
    states.rest = *states.use;
    if (!add_cut(states.rest, weight.shape, rows, result_.axes.z) &&
        (rows.size() == 1 || !add_cut(states.rest, weight.shape, columns, result_.axes.z)))
      note_indivisible(weight, "rows", rows, result_.axes.z, *states.use);
    finish_moments(states, weight, rows);
  }

  void finish_moments(ParameterStates& states, const graph::Value& weight, const Dims& rows) {
    states.moments = states.rest;
    if (!spec_.shard_states) return;
    // Only the outermost dim: a part of the update is then one run of memory. Padding stays whole.
    const bool padded = !states.rest.dims.empty() && !states.rest.dims[0].empty() &&
                        states.rest.dims[0].back().stride.has_value();
    if (!rows.empty() && rows[0] == 0 && !padded)
      add_cut(states.moments, weight.shape, {0}, result_.axes.data);
  }

  /// Cuts the first of those dims that the axis divides; false where it divides none.
  bool add_cut(op::Sharding& sharding, const Shape& shape, const Dims& dims, AxisId axis) const {
    if (size(axis) == 1) return true;
    const Shape local = op::local_shape(shape, sharding, mesh_);
    for (const std::size_t dim : dims) {
      if (local[dim] % size(axis) != 0) continue;
      sharding.dims.resize(shape.rank());
      sharding.dims[dim].push_back({axis, std::nullopt});
      return true;
    }
    return false;
  }

  /// A vocabulary is cut whatever its size; where the axes do not divide it, strides say how it is
  /// padded.
  void cut_vocabulary(ParameterStates& states, const Shape& shape, std::size_t dim,
                      std::initializer_list<AxisId> axes) {
    std::vector<op::Cut> cuts = cuts_by(mesh_, axes);
    std::int64_t parts = 1;
    for (const op::Cut& cut : cuts) parts *= size(cut.axis);
    if (shape[dim] % parts != 0) {
      std::int64_t stride = (shape[dim] + parts - 1) / parts;
      for (std::size_t i = cuts.size(); i-- > 0;) {
        cuts[i].stride = stride;
        stride *= size(cuts[i].axis);
      }
    }
    if (cuts.empty()) return;
    states.use->dims.resize(shape.rank());
    states.use->dims[dim] = cuts;
  }

  bool is_logits(ValueId id) const {
    if (graph_.value(id).role == ValueRole::output) return true;
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& node) {
      return !node.reads.empty() && node.reads[0] == id &&
             (std::holds_alternative<op::CrossEntropy>(node.op) ||
              std::holds_alternative<op::LogitMax>(node.op));
    });
  }

  void note_indivisible(const graph::Value& weight, std::string_view what, const Dims& dims,
                        AxisId axis, const op::Sharding& before) {
    const Shape local = op::local_shape(weight.shape, before, mesh_);
    std::string sizes, degrees;
    for (const std::size_t dim : dims)
      sizes += format("{}{}", sizes.empty() ? "" : " x ", local[dim]);
    for (std::int64_t n = 1; n <= 2 * size(axis); ++n)
      if (std::any_of(dims.begin(), dims.end(),
                      [&](std::size_t dim) { return local[dim] % n == 0; }))
        degrees += format("{}{}", degrees.empty() ? "" : ", ", n);
    const std::string key = "parallel.tensor." + mesh_.axes[axis.index()].name;
    // The ffn width is the columns of the first matrix of an MLP and the rows of the second one.
    const bool is_ffn = weight.name.find(".mlp.") != std::string::npos &&
                        (what == "rows") == weight.name.ends_with(".down.weight");
    const std::string size_key = is_ffn ? "model.ffn_hidden_size" : "model.hidden_size";
    std::string message = format(
        "{} = {} does not divide the {} {} of {} that a rank would hold (see {}); degrees "
        "that do: {}",
        key, size(axis), sizes, what, weight.name, size_key, degrees);
    // Equal blocks have equal problems: say it for the first.
    for (const auto& problem : infeasible_.problems)
      if (problem.keys == std::vector<std::string>{key, size_key}) return;
    infeasible_.problems.push_back({{key, size_key}, std::move(message)});
  }

  std::int64_t size(AxisId axis) const { return mesh_.axes[axis.index()].size; }

  const Graph& graph_;
  const Mesh& mesh_;
  const PlanSpec& spec_;
  Annotation result_;
  std::vector<Columns> columns_;  // by value
  Infeasible infeasible_;
};

}  // namespace

std::vector<op::Cut> cuts_by(const Mesh& mesh, std::initializer_list<AxisId> axes) {
  std::vector<op::Cut> cuts;
  for (const AxisId axis : axes)
    if (mesh.axes[axis.index()].size > 1) cuts.push_back({axis, std::nullopt});
  return cuts;
}

std::variant<Annotation, Infeasible> annotate(const graph::Graph& train, const Mesh& mesh,
                                              const PlanSpec& spec) {
  return Annotator(train, mesh, spec).run();
}

}  // namespace fourfold::plan
