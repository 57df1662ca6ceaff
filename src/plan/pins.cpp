#include "plan/pins.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "plan/derive_shardings.h"
#include "plan/make_mesh.h"

namespace fourfold::plan {
namespace {

using graph::Value;
using graph::ValueRole;

/// A parameter, or one that another mesh sends.
bool is_any_weight(const Value& value) {
  return value.role == ValueRole::parameter ||
         (value.role == ValueRole::received && (value.init || value.gradient_of));
}

/// Says of which values of a graph a pin is.
class Meant {
 public:
  Meant(const graph::Graph& train, const Pin& pin)
      : pin_(pin), is_of_weights_(std::ranges::any_of(train.values, [&](const Value& value) {
          return is_any_weight(value) && matches(pin.pattern, value.name);
        })) {}
  bool operator()(const Value& value) const {
    const bool may_be = is_of_weights_ ? is_any_weight(value) : value.role == ValueRole::activation;
    return may_be && matches(pin_.pattern, value.name);
  }

 private:
  const Pin& pin_;
  bool is_of_weights_;
};

AxisId axis_of(const Mesh& mesh, const std::string& name) {
  const Axes axes = axes_of(mesh);
  return name == "x" ? axes.x : name == "y" ? axes.y : name == "z" ? axes.z : axes.data;
}

/// Reads one pin for one tensor.
std::variant<op::Sharding, BadPin> sharding_of(const Pin& pin, const Value& value,
                                               const Mesh& mesh) {
  BadPin bad{BadPin::Why::dims, pin.pattern, to_string(pin), value.name};
  bad.shape = value.shape.dims();
  if (pin.dims.size() != value.shape.rank()) return bad;
  op::Sharding sharding;
  sharding.dims.resize(pin.dims.size());
  for (std::size_t dim = 0; dim < pin.dims.size(); ++dim) {
    const std::int64_t size = value.shape[dim];
    if (pin.dims[dim].size && *pin.dims[dim].size != size) return bad;
    std::int64_t ranks = 1;
    for (const std::string& name : pin.dims[dim].axes) {
      const AxisId axis = axis_of(mesh, name);
      ranks *= mesh.axes[axis.index()].size;
      if (mesh.axes[axis.index()].size > 1) sharding.dims[dim].push_back({axis, std::nullopt});
    }
    if (size % ranks == 0) continue;
    bad.why = BadPin::Why::indivisible;
    bad.size = size;
    bad.ranks = ranks;
    for (std::int64_t n = 1; n <= 2 * ranks; ++n)
      if (size % n == 0) bad.degrees.push_back(n);
    return bad;
  }
  return normal(std::move(sharding));
}

/// Reads the pins of a graph.
class PinReader {
 public:
  PinReader(const graph::Graph& train, const Mesh& mesh) : train_(train), mesh_(mesh) {}

  void read(const Pin& pin) {
    const Meant is_meant(train_, pin);
    for (const Value& value : train_.values)
      if (is_meant(value) && !read(pin, value)) return;  // equal layers have equal problems
  }

  std::variant<PinnedShardings, Infeasible> result() && {
    if (!infeasible_.problems.empty()) return std::move(infeasible_);
    return std::move(pinned_);
  }
  void add(std::vector<Problem> problems) {
    std::ranges::move(problems, std::back_inserter(infeasible_.problems));
  }

 private:
  /// False where the pin is wrong for the tensor.
  bool read(const Pin& pin, const Value& value) {
    op::Sharding sharding;
    if (!pin.is_never_whole) {
      auto found = sharding_of(pin, value, mesh_);
      if (auto* bad = std::get_if<BadPin>(&found)) {
        infeasible_.problems.emplace_back(std::move(*bad));
        return false;
      }
      sharding = std::get<op::Sharding>(std::move(found));
    }
    for (const Pin* other : by_[value.name]) {
      const bool is_both = pin.is_never_whole == other->is_never_whole;
      const op::Sharding& whole = pin.is_never_whole ? sharding_by(value) : sharding;
      if (is_both ? pin.dims == other->dims : !whole.replicated()) continue;
      BadPin bad{BadPin::Why::other_pin, pin.pattern, to_string(pin), value.name};
      bad.other = other->pattern;
      infeasible_.problems.emplace_back(std::move(bad));
      return false;
    }
    by_[value.name].push_back(&pin);
    if (pin.is_never_whole)
      pinned_.never_whole.try_emplace(value.name, pin);
    else
      sharding_by(value) = std::move(sharding);
    return true;
  }

  op::Sharding& sharding_by(const Value& value) {
    return (is_any_weight(value) ? pinned_.weights : pinned_.activations)[value.name];
  }

  const graph::Graph& train_;
  const Mesh& mesh_;
  PinnedShardings pinned_;
  std::map<std::string, std::vector<const Pin*>> by_;
  Infeasible infeasible_;
};

}  // namespace

std::vector<Pin> pins_of(const graph::Graph& train, std::span<const Pin> pins) {
  std::vector<Pin> result;
  std::ranges::copy_if(pins, std::back_inserter(result), [&](const Pin& pin) {
    return std::ranges::any_of(train.values, Meant(train, pin));
  });
  return result;
}

std::vector<Problem> unused_pins(const graph::Graph& train, std::span<const Pin> pins) {
  const std::vector<Pin> used = pins_of(train, pins);
  std::vector<Problem> problems;
  for (const Pin& pin : pins) {
    if (std::ranges::find(used, pin) != used.end()) continue;
    BadPin bad{BadPin::Why::unused, pin.pattern, to_string(pin), {}};
    for (const bool is_of_weights : {true, false})
      for (const Value& value : train.values)
        if (is_of_weights ? is_any_weight(value) : value.role == ValueRole::activation)
          bad.names.push_back(value.name);
    problems.emplace_back(std::move(bad));
  }
  return problems;
}

bool treat_layers_alike(const graph::Graph& train, std::span<const Pin> pins) {
  std::vector<Meant> meant;
  for (const Pin& pin : pins) meant.emplace_back(train, pin);
  std::vector<bool> is_seen(train.values.size(), false);
  std::map<std::int64_t, std::vector<std::vector<bool>>> by_layer;  // by value, then by pin
  const auto see = [&](const graph::Node& node, graph::ValueId id) {
    if (is_seen[id.index()]) return;
    is_seen[id.index()] = true;
    if (!node.layer) return;
    std::vector<bool>& is_meant = by_layer[*node.layer].emplace_back();
    for (const Meant& pin : meant) is_meant.push_back(pin(train.value(id)));
  };
  for (const graph::Node& node : train.nodes) {
    if (node.phase != graph::Phase::forward) continue;
    for (const graph::ValueId id : node.reads)
      if (is_any_weight(train.value(id))) see(node, id);
    for (const graph::ValueId id : node.outputs) see(node, id);
  }
  return std::ranges::all_of(
      by_layer, [&](const auto& one) { return one.second == by_layer.begin()->second; });
}

std::variant<PinnedShardings, Infeasible> pinned_shardings(const graph::Graph& train,
                                                           const Mesh& mesh,
                                                           std::span<const Pin> pins) {
  PinReader reader(train, mesh);
  for (const Pin& pin : pins) reader.read(pin);
  reader.add(unused_pins(train, pins));
  return std::move(reader).result();
}

Keep keep_as(const op::Sharding& sharding, std::size_t rank) {
  Keep keep;
  for (std::size_t dim = 0; dim < rank; ++dim) keep.whole.push_back(dim);
  for (std::size_t dim = 0; dim < sharding.dims.size(); ++dim)
    for (const op::Cut& cut : sharding.dims[dim]) keep.wishes.push_back({cut.axis, {dim}});
  return keep;
}

std::vector<Problem> left_whole(const graph::Graph& train, const PinnedShardings& pinned,
                                const Layout& layout, std::span<const op::Sharding> values) {
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < train.values.size(); ++i) {
    const Value& value = train.values[i];
    const auto place = pinned.never_whole.find(value.name);
    if (place == pinned.never_whole.end()) continue;
    const auto parameter = layout.parameters.find(value.name);
    const bool is_parameter = parameter != layout.parameters.end();
    if (!is_parameter && values.empty()) continue;
    if (!(is_parameter ? parameter->second.rest : values[i]).replicated()) continue;
    BadPin bad{BadPin::Why::whole, place->second.pattern, to_string(place->second), value.name};
    bad.shape = value.shape.dims();
    problems.emplace_back(std::move(bad));
    break;  // equal layers have equal problems
  }
  return problems;
}

}  // namespace fourfold::plan
