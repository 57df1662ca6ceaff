#include "plan/axonn.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "plan/make_mesh.h"

namespace fourfold::plan {
namespace {

using graph::Graph;
using graph::Node;
using graph::Phase;
using graph::Value;
using graph::ValueId;
using graph::ValueRole;
using Dims = std::vector<std::size_t>;

bool contains(const std::string& factors, char factor) {
  return factors.find(factor) != std::string::npos;
}

/// A weight that another mesh sends, or what it adds to the gradient of one.
bool is_received_state(const Value& value) {
  return value.role == ValueRole::received && (value.init || value.gradient_of);
}

/// What the forward nodes of a graph say about the dims of values, by the ops' rules alone.
class DimFacts {
 public:
  explicit DimFacts(const Graph& graph) : graph_(graph), facts_(graph.values.size()) {
    for (std::size_t i = 0; i < facts_.size(); ++i) facts_[i].resize(graph.values[i].shape.rank());
    for (std::size_t i = graph.values.size(); i-- > 0;)
      if (graph.values[i].role == ValueRole::output)
        for (Fact& fact : facts_[i]) fact.ends = true;
    for (std::size_t i = graph.nodes.size(); i-- > 0;)
      if (graph.nodes[i].phase == Phase::forward) look_back(graph.nodes[i]);
    for (std::size_t i = 0; i < graph.values.size(); ++i)
      if (is_given(graph.values[i])) mark_given(facts_[i]);
    for (const Node& node : graph.nodes)
      if (node.phase == Phase::forward) look_ahead(node);
  }

  /// True if some reader holds the dim whole, itself or after ops that keep it.
  bool is_held(ValueId id, std::size_t dim) const { return facts_[id.index()][dim].held; }
  /// True if what makes the value holds the dim whole, itself or before ops that keep it.
  bool is_made_whole(ValueId id, std::size_t dim) const {
    return facts_[id.index()][dim].made_whole;
  }
  /// True if the dim is one of what is fed.
  bool is_fed(ValueId id, std::size_t dim) const { return facts_[id.index()][dim].fed; }
  /// True if the dim ends in an op that has a cut form over it, or in an output of the graph.
  bool ends(ValueId id, std::size_t dim) const { return facts_[id.index()][dim].ends; }
  /// The core that the value reaches through ops that keep its dims, and the core's operand.
  struct Core {
    const Node* node = nullptr;
    std::size_t operand = 0;
  };
  std::optional<Core> core(ValueId id) const {
    const auto place = cores_.find(id);
    return place == cores_.end() ? std::nullopt : std::optional(place->second);
  }
  /// The second dim of what is fed, where the value has it.
  std::optional<std::size_t> second_dim(ValueId id) const {
    const auto& dims = facts_[id.index()];
    const auto place =
        std::find_if(dims.begin(), dims.end(), [](const Fact& fact) { return fact.second; });
    if (place == dims.end()) return std::nullopt;
    return static_cast<std::size_t>(place - dims.begin());
  }

 private:
  /// Fed by the host or sent by another mesh: the first dims are those of what is fed.
  static bool is_given(const Value& value) {
    return value.role == graph::ValueRole::input ||
           (value.role == ValueRole::received && !is_received_state(value));
  }

  struct Fact {
    bool held = false, ends = false, second = false, made_whole = false, fed = false;
  };

  static void mark_given(std::vector<Fact>& dims) {
    for (Fact& fact : dims) fact.fed = true;
    if (dims.size() > 1) dims[1].second = true;
  }

  /// Calls `visit(read, dim, factor, output, dim of it)` for each factor that a read shares with an
  /// output.
  template <class Visit>
  static void for_each_shared(const Node& node, const op::FactorRule& rule, Visit&& visit) {
    for (std::size_t i = 0; i < node.reads.size(); ++i)
      for (std::size_t dim = 0; dim < rule.operands[i].size(); ++dim)
        for (std::size_t o = 0; o < node.outputs.size(); ++o) {
          const op::OperandFactors& output = rule.operands[node.reads.size() + o];
          for (std::size_t out = 0; out < output.size(); ++out)
            for (const char factor : rule.operands[i][dim])
              if (output[out].find(factor) != std::string_view::npos) visit(i, dim, o, out);
        }
  }

  void look_back(const Node& node) {
    const op::FactorRule rule = op::factors(node.op, graph_.shapes(node.reads));
    std::string of_outputs;
    for (std::size_t o = 0; o < node.outputs.size(); ++o)
      of_outputs += rule.operands[node.reads.size() + o].letters();
    for (std::size_t i = 0; i < node.reads.size(); ++i) {
      auto& read = facts_[node.reads[i].index()];
      for (std::size_t dim = 0; dim < rule.operands[i].size(); ++dim)
        for (const char factor : rule.operands[i][dim]) {
          const bool has_form = contains(rule.cut_form, factor);
          read[dim].held = read[dim].held || (rule.is_whole(factor) && !has_form);
          read[dim].ends = read[dim].ends || (has_form && !contains(of_outputs, factor));
        }
    }
    for_each_shared(node, rule,
                    [&](std::size_t i, std::size_t dim, std::size_t o, std::size_t out) {
                      Fact& read = facts_[node.reads[i].index()][dim];
                      const Fact& output = facts_[node.outputs[o].index()][out];
                      read.held = read.held || output.held;
                      read.ends = read.ends || output.ends;
                    });
    look_for_core(node, rule);
  }

  void look_for_core(const Node& node, const op::FactorRule& rule) {
    for (std::size_t i = 0; i < node.reads.size(); ++i) {
      const ValueId id = node.reads[i];
      if (graph_.value(id).role != ValueRole::activation) continue;
      if (op::work_class(node.op) == op::WorkClass::core) cores_.try_emplace(id, Core{&node, i});
      for (std::size_t o = 0; o < node.outputs.size(); ++o)
        if (const auto place = cores_.find(node.outputs[o]);
            place != cores_.end() &&
            rule.operands[i].letters() == rule.operands[node.reads.size() + o].letters())
          cores_.try_emplace(id, Core(place->second));
    }
  }

  void look_ahead(const Node& node) {
    const op::FactorRule rule = op::factors(node.op, graph_.shapes(node.reads));
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      const op::OperandFactors& output = rule.operands[node.reads.size() + o];
      for (std::size_t dim = 0; dim < output.size(); ++dim)
        for (const char factor : output[dim])
          if (rule.is_whole(factor) && !contains(rule.cut_form, factor))
            facts_[node.outputs[o].index()][dim].made_whole = true;
    }
    for_each_shared(node, rule,
                    [&](std::size_t i, std::size_t dim, std::size_t o, std::size_t out) {
                      const Fact& read = facts_[node.reads[i].index()][dim];
                      Fact& output = facts_[node.outputs[o].index()][out];
                      output.second = output.second || read.second;
                      output.made_whole = output.made_whole || read.made_whole;
                      output.fed = output.fed || read.fed;
                    });
  }

  const Graph& graph_;
  std::vector<std::vector<Fact>> facts_;  // by value and dim
  std::map<ValueId, Core> cores_;
};

/// How one node uses one parameter, in dims of the parameter.
struct Use {
  enum class Kind { contraction, look_up, other } kind = Kind::other;
  std::size_t operand = 0;
  Dims k, n;     // contracted and kept
  Dims index;    // of a table
  Dims lacking;  // held whole and no factor of the outputs: positions
};

class Seeder {
 public:
  Seeder(const Graph& graph, const Mesh& mesh, const LayoutOptions& options)
      : graph_(graph),
        mesh_(mesh),
        axes_(axes_of(mesh)),
        options_(options),
        facts_(graph),
        colours_(graph.values.size(), axes_.y) {}

  std::variant<Layout, Infeasible> run() {
    layout_.samples = {axes_.data, axes_.z};
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const Value& value = graph_.values[i];
      if (value.role == ValueRole::parameter) layout_.parameters[value.name];
      if (value.role == ValueRole::received && !is_weight(value) && value.shape.rank() > 1)
        layout_.activations[value.name] = keep_received(ValueId(i));
    }
    for (const Node& node : graph_.nodes)
      if (node.phase == Phase::forward) visit(node);
    pin_others();
    if (!infeasible_.problems.empty()) return std::move(infeasible_);
    return std::move(layout_);
  }

 private:
  /// A parameter of this mesh or one that another mesh sends.
  static bool is_weight(const Value& value) {
    return value.role == ValueRole::parameter || is_received_state(value);
  }

  void visit(const Node& node) {
    const auto input = std::find_if(node.reads.begin(), node.reads.end(),
                                    [&](ValueId id) { return !is_weight(graph_.value(id)); });
    AxisId colour = input == node.reads.end() ? axes_.y : colours_[input->index()];
    const op::FactorRule rule = op::factors(node.op, graph_.shapes(node.reads));
    for (std::size_t i = 0; i < node.reads.size(); ++i) {
      if (!is_weight(graph_.value(node.reads[i]))) continue;
      const Use use = use_of(node, rule, i);
      if (use.kind == Use::Kind::contraction) colour = contract(node, rule, use, colour);
      if (use.kind == Use::Kind::look_up) look_up(node, rule, use);
      if (use.kind == Use::Kind::other) follow(node, rule, use, colour);
    }
    for (const ValueId id : node.outputs) colours_[id.index()] = colour;
  }

  Use use_of(const Node& node, const op::FactorRule& rule, std::size_t operand) const {
    std::string of_others, of_outputs;
    for (std::size_t i = 0; i < rule.operands.size(); ++i)
      if (i >= node.reads.size())
        of_outputs += rule.operands[i].letters();
      else if (i != operand && !is_weight(graph_.value(node.reads[i])))
        of_others += rule.operands[i].letters();
    const op::Operands operands = op::operands(node.op);
    const bool reads_integers =
        std::any_of(operands.begin(), operands.end(), [](const op::Operand& o) {
          return o.role == op::Role::read && o.element == op::Element::i32;
        });
    Use use{Use::Kind::other, operand, {}, {}, {}, {}};
    const op::OperandFactors& dims = rule.operands[operand];
    for (std::size_t dim = 0; dim < dims.size(); ++dim) {
      const char factor = dims[dim][0];  // parameters have a factor a dim
      if (contains(of_outputs, factor))
        use.n.push_back(dim);
      else if (contains(of_others, factor))
        use.k.push_back(dim);
      else
        (rule.is_whole(factor) ? use.lacking : use.index).push_back(dim);
    }
    if (rule.linear == op::FactorRule::Linear::one && !use.k.empty())
      use.kind = Use::Kind::contraction;
    if (reads_integers && !use.index.empty()) use.kind = Use::Kind::look_up;
    return use;
  }

  // --- what ops seed

  AxisId contract(const Node& node, const op::FactorRule& rule, const Use& use, AxisId colour) {
    const Value& weight = graph_.value(node.reads[use.operand]);
    const ValueId output = node.outputs[0];
    const bool is_class = std::any_of(use.n.begin(), use.n.end(), [&](std::size_t dim) {
      return facts_.ends(output, output_dim(node, rule, use, dim));
    });
    ParameterLayout& layout = layout_.parameters[weight.name];
    const AxisId other = colour == axes_.y ? axes_.x : axes_.y;
    if (layout.use) return other;  // a look-up has decided
    layout.use.emplace();
    if (const op::Sharding* rest = pinned(weight)) {
      pin(layout, weight, *rest, use.k);
      const AxisId of_output = pinned_colour(*layout.use, use.n).value_or(other);
      if (!is_class) keep_contracted(node, rule, use, layout, of_output);
      return of_output;
    }
    if (is_class) {
      cut_padded(*layout.use, weight.shape, use.n.back(), {axes_.x, axes_.y});
      if (weight.role == ValueRole::received)
        receive(layout);
      else
        rest(layout, weight, use.k, {});
      return other;
    }
    Dims n, held;
    for (const std::size_t dim : use.n)
      (facts_.is_held(output, output_dim(node, rule, use, dim)) ? held : n).push_back(dim);
    // What all readers hold whole may be too short, as the numbers of a pixel are that a loss
    // reads: it stays whole, and what is contracted is cut on both axes.
    const bool stays_whole = n.empty() && !held.empty() && !divides(weight.shape, held, other);
    if (!held.empty()) n.push_back(held.back());
    const Dims k = contracted_dims(node, rule, use);
    // What is fed may have too few of a factor, as pictures have colours: it stays whole, and what
    // is given is cut on both axes, so that no work is repeated.
    const bool is_short = is_fed(node, rule, use) && !divides(weight.shape, k, colour);
    if (!is_short) seed_cut(layout, weight, Indivisible::Side::rows, k, colour);
    if (stays_whole)
      seed_cut(layout, weight, Indivisible::Side::rows, k, other);
    else
      seed_cut(layout, weight, Indivisible::Side::columns, n, other);
    if (is_short) add_cut(*layout.use, weight.shape, n, colour);
    rest(layout, weight, k, n, is_short);
    keep_contracted(node, rule, use, layout, other);
    return other;
  }

  /// The value that a parameter is contracted with, and its dim that has the factor of a dim of the
  /// parameter.
  std::pair<ValueId, std::size_t> contracted(const Node& node, const op::FactorRule& rule,
                                             const Use& use, std::size_t dim) const {
    const char factor = rule.operands[use.operand][dim][0];
    for (std::size_t i = 0; i < node.reads.size(); ++i)
      for (std::size_t of = 0; i != use.operand && of < rule.operands[i].size(); ++of)
        if (rule.operands[i][of].find(factor) != std::string_view::npos) return {node.reads[i], of};
    fail_internal("a contracted factor is one of another operand");
  }

  /// The dims of k in the order in which a cut is tried: the input is not cut in those that it is
  /// made whole in.
  Dims contracted_dims(const Node& node, const op::FactorRule& rule, const Use& use) const {
    Dims dims = use.k;
    std::ranges::stable_partition(dims, [&](std::size_t dim) {
      const auto [value, of] = contracted(node, rule, use, dim);
      return !facts_.is_made_whole(value, of);
    });
    return dims;
  }

  bool is_fed(const Node& node, const op::FactorRule& rule, const Use& use) const {
    return std::ranges::all_of(use.k, [&](std::size_t dim) {
      const auto [value, of] = contracted(node, rule, use, dim);
      return facts_.is_fed(value, of);
    });
  }

  bool divides(const Shape& shape, const Dims& dims, AxisId axis) const {
    return std::ranges::any_of(dims, [&](std::size_t dim) { return shape[dim] % size(axis) == 0; });
  }

  void look_up(const Node& node, const op::FactorRule& rule, const Use& use) {
    const Value& table = graph_.value(node.reads[use.operand]);
    ParameterLayout layout;
    layout.use.emplace();
    const std::size_t dim = use.index[0];
    if (const op::Sharding* rest = pinned(table)) {
      pin(layout, table, *rest, {dim});
    } else {
      cut_padded(*layout.use, table.shape, dim, {axes_.x, axes_.y, axes_.z});
      layout.rest = *layout.use;
      if (size(axes_.z) > 1) layout.use->dims[dim].pop_back();  // what ops see is gathered on z
      if (layout.use->replicated()) layout.use->dims.clear();
      moments(layout, table, {dim});
    }
    if (table.role == ValueRole::received) receive(layout);
    layout_.parameters[table.name] = layout;

    const ValueId output = node.outputs[0];
    Keep keep = keep_sequence(output);
    Dims channels;
    for (const std::size_t n : use.n) channels.push_back(output_dim(node, rule, use, n));
    keep.wishes.push_back({axes_.y, channels});
    layout_.activations[graph_.value(output).name] = keep;
  }

  /// A parameter that no op seeds. It lies whole, unless it is of classes, which are padded, or an
  /// op holds it whole.
  void follow(const Node& node, const op::FactorRule& rule, const Use& use, AxisId colour) {
    const Value& table = graph_.value(node.reads[use.operand]);
    ParameterLayout& layout = layout_.parameters[table.name];
    if (use.n.empty() || layout.use) return;
    for (const std::size_t dim : use.n)
      if (facts_.ends(node.outputs[0], output_dim(node, rule, use, dim))) {
        layout.use.emplace();
        cut_padded(*layout.use, table.shape, dim, {axes_.x, axes_.y});
        layout.rest = *layout.use;
        return moments(layout, table, {});
      }
    if (use.lacking.empty()) return;
    layout.use.emplace();
    seed_cut(layout, table, Indivisible::Side::columns, use.n, colour);
    layout.rest = *layout.use;
    add_cut(layout.rest, table.shape, use.lacking, axes_.z);
    moments(layout, table, use.lacking);
  }

  /// The dim of a node's first output that a dim of a parameter becomes.
  static std::size_t output_dim(const Node& node, const op::FactorRule& rule, const Use& use,
                                std::size_t dim) {
    const op::OperandFactors& output = rule.operands[node.reads.size()];
    const char factor = rule.operands[use.operand][dim][0];
    for (std::size_t out = 0; out < output.size(); ++out)
      if (output[out].find(factor) != std::string_view::npos) return out;
    fail_internal("a kept factor is one of the output");
  }

  /// It comes whole and is cut here; but where that leaves padding, which no copy of a part makes,
  /// as it is used.
  void receive(ParameterLayout& layout) {
    layout.is_received = true;
    layout.rest = is_padded(*layout.use) ? *layout.use : op::Sharding{};
  }

  /// z cuts whole rows at rest, else columns. A weight that is small because few are fed may stay
  /// whole on z.
  void rest(ParameterLayout& layout, const Value& weight, const Dims& k, const Dims& n,
            bool is_small = false) {
    layout.rest = *layout.use;
    if (!add_cut(layout.rest, weight.shape, k, axes_.z) &&
        !add_cut(layout.rest, weight.shape, n, axes_.z) && !is_small)
      note(weight, Indivisible::Side::rows, k, axes_.z, *layout.use);
    moments(layout, weight, k);
  }

  void moments(ParameterLayout& layout, const Value& weight, const Dims& rows) {
    layout.moments = layout.rest;
    if (!options_.shard_states || cuts_axis(layout.rest, axes_.data)) return;
    // Only the outermost dim: a rank's share of the update is then one run of memory. Padding stays
    // whole.
    if (!rows.empty() && rows[0] == 0 && !is_padded(layout.rest))
      add_cut(layout.moments, weight.shape, {0}, axes_.data);
  }

  // --- what the user has chosen

  const op::Sharding* pinned(const Value& weight) const {
    const auto place = options_.pinned.find(weight.name);
    return place == options_.pinned.end() ? nullptr : &place->second;
  }

  /// Lies so between steps; in use it is gathered on z, which divides samples.
  void pin(ParameterLayout& layout, const Value& weight, const op::Sharding& rest,
           const Dims& rows) {
    layout.rest = rest;
    layout.use = rest;
    for (op::Cuts& cuts : layout.use->dims)
      std::erase_if(cuts, [&](const op::Cut& cut) {
        return cut.axis == axes_.z || cut.axis == axes_.data;  // which divide samples
      });
    if (layout.use->replicated()) layout.use->dims.clear();
    moments(layout, weight, rows);
    if (weight.role == ValueRole::received) receive(layout);
  }

  /// The one of x and y that cuts those dims; none where both do, or neither.
  std::optional<AxisId> pinned_colour(const op::Sharding& sharding, const Dims& dims) const {
    std::vector<AxisId> found;
    for (const std::size_t dim : dims)
      if (dim < sharding.dims.size())
        for (const op::Cut& cut : sharding.dims[dim]) found.push_back(cut.axis);
    return found.size() == 1 ? std::optional(found[0]) : std::nullopt;
  }

  /// Parameters that no op seeds: in use they are as what they meet.
  void pin_others() {
    for (const Value& value : graph_.values) {
      const op::Sharding* rest = pinned(value);
      if (rest == nullptr || !is_weight(value)) continue;
      ParameterLayout& layout = layout_.parameters[value.name];
      if (layout.is_received || layout.rest == *rest) continue;
      layout.rest = layout.moments = *rest;
    }
  }

  // --- what is kept

  Keep keep_sequence(ValueId id) const {
    Keep keep;
    const auto second = facts_.second_dim(id);
    if (options_.shard_sequence && second) keep.wishes.push_back({axes_.x, {*second}, true});
    return keep;
  }

  /// What another mesh sends lies as what a look-up gives: its last dim has the first colour.
  Keep keep_received(ValueId id) const {
    Keep keep;
    if (options_.shard_sequence) keep.wishes.push_back({axes_.x, {1}, true});
    keep.wishes.push_back({axes_.y, {graph_.value(id).shape.rank() - 1}});
    return keep;
  }

  void keep_contracted(const Node& node, const op::FactorRule& rule, const Use& use,
                       const ParameterLayout& layout, AxisId colour) {
    const ValueId output = node.outputs[0];
    Keep keep;
    if (const auto core = facts_.core(output))
      keep = keep_for_core(node, rule, use, layout, *core);
    else if (colour == axes_.y)
      keep = keep_sequence(output);
    if (keep != Keep{}) layout_.activations[graph_.value(output).name] = keep;
  }

  Keep keep_for_core(const Node& node, const op::FactorRule& rule, const Use& use,
                     const ParameterLayout& layout, const DimFacts::Core& core) const {
    const op::FactorRule of_core = op::factors(core.node->op, graph_.shapes(core.node->reads));
    const op::OperandFactors& operand = of_core.operands[core.operand];
    Dims free;
    for (std::size_t dim = 1; dim < operand.size(); ++dim)
      if (!of_core.is_whole(operand[dim][0])) free.push_back(dim);
    free.push_back(0);  // samples
    Keep keep;
    std::vector<AxisId> from_held;
    std::vector<AxisId> open = {axes_.y, axes_.x};
    for (const std::size_t dim : use.n) {
      const std::size_t out = output_dim(node, rule, use, dim);
      const bool held = of_core.is_whole(operand[out][0]);
      if (dim >= layout.use->dims.size()) continue;
      for (const op::Cut& cut : layout.use->dims[dim]) {
        std::erase(open, cut.axis);
        if (held) from_held.push_back(cut.axis);
      }
      if (held && !layout.use->dims[dim].empty()) keep.whole.push_back(out);
    }
    for (const AxisId axis : open)
      if (size(axis) > 1) keep.wishes.push_back({axis, free});
    for (const AxisId axis : from_held) keep.wishes.push_back({axis, {0}});
    return keep;
  }

  // --- cuts

  /// Cuts the use of a parameter, or notes that it cannot be.
  void seed_cut(ParameterLayout& layout, const Value& weight, Indivisible::Side side,
                const Dims& dims, AxisId axis) {
    if (!add_cut(*layout.use, weight.shape, dims, axis))
      note(weight, side, dims, axis, *layout.use);
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

  /// Classes and rows of tables are padded: where the axes do not divide them, each cut states its
  /// stride.
  void cut_padded(op::Sharding& sharding, const Shape& shape, std::size_t dim,
                  std::initializer_list<AxisId> axes) const {
    const op::Cuts cuts = cuts_of_dim(shape[dim], std::vector<AxisId>(axes), mesh_);
    if (cuts.empty()) return;
    sharding.dims.resize(shape.rank());
    sharding.dims[dim] = cuts;
  }

  /// Equal layers have equal problems: only the first is noted.
  void note(const Value& weight, Indivisible::Side side, Dims dims, AxisId axis,
            const op::Sharding& before) {
    std::sort(dims.begin(), dims.end());
    Indivisible problem{weight.name, side, {}, 1, mesh_.axes[axis.index()].name, size(axis), {}};
    const Shape local = op::local_shape(weight.shape, before, mesh_);
    for (const std::size_t dim : dims) {
      problem.sizes.push_back(local[dim]);
      problem.size *= weight.shape[dim];
    }
    for (std::int64_t n = 1; n <= 2 * size(axis); ++n)
      if (std::any_of(dims.begin(), dims.end(),
                      [&](std::size_t dim) { return local[dim] % n == 0; }))
        problem.degrees.push_back(n);
    for (const Problem& earlier : infeasible_.problems)
      if (const auto* other = std::get_if<Indivisible>(&earlier);
          other != nullptr && other->axis == problem.axis && other->size == problem.size)
        return;
    infeasible_.problems.emplace_back(std::move(problem));
  }

  std::int64_t size(AxisId axis) const { return mesh_.axes[axis.index()].size; }

  const Graph& graph_;
  const Mesh& mesh_;
  Axes axes_;
  const LayoutOptions& options_;
  DimFacts facts_;
  std::vector<AxisId> colours_;  // by value
  Layout layout_;
  Infeasible infeasible_;
};

}  // namespace

op::Cuts cuts_by(const Mesh& mesh, std::span<const AxisId> axes) {
  op::Cuts cuts;
  for (const AxisId axis : axes)
    if (mesh.axes[axis.index()].size > 1) cuts.push_back({axis, std::nullopt});
  return cuts;
}

op::Cuts cuts_of_dim(std::int64_t size, std::span<const AxisId> axes, const Mesh& mesh) {
  op::Cuts cuts = cuts_by(mesh, axes);
  std::int64_t ranks = 1;
  for (const op::Cut& cut : cuts) ranks *= mesh.axes[cut.axis.index()].size;
  if (size % ranks == 0) return cuts;
  std::int64_t stride = (size + ranks - 1) / ranks;
  for (std::size_t i = cuts.size(); i-- > 0;) {
    cuts[i].stride = stride;
    stride *= mesh.axes[cuts[i].axis.index()].size;
  }
  return cuts;
}

bool cuts_axis(const op::Sharding& sharding, AxisId axis) {
  return std::ranges::any_of(sharding.dims, [&](const op::Cuts& cuts) {
    return std::ranges::find(cuts, axis, &op::Cut::axis) != cuts.end();
  });
}

std::variant<Layout, Infeasible> axonn(const graph::Graph& train, const Mesh& mesh,
                                       const LayoutOptions& options) {
  return Seeder(train, mesh, options).run();
}

}  // namespace fourfold::plan
