#include "plan/pins.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "plan/make_mesh.h"

namespace fourfold::plan {
namespace {

using graph::Value;
using graph::ValueRole;

bool may_be_pinned(const Value& value) {
  return value.role == ValueRole::parameter ||
         (value.role == ValueRole::received && (value.init || value.gradient_of));
}

AxisId axis_of(const Mesh& mesh, const std::string& name) {
  const Axes axes = axes_of(mesh);
  return name == "x" ? axes.x : name == "y" ? axes.y : axes.z;
}

/// Reads one pin for one weight.
std::variant<op::Sharding, BadPin> sharding_of(const Pin& pin, const Value& weight,
                                               const Mesh& mesh) {
  BadPin bad{BadPin::Why::dims, pin.pattern, to_string(pin.dims), weight.name};
  bad.shape = weight.shape.dims();
  if (pin.dims.size() != weight.shape.rank()) return bad;
  op::Sharding sharding;
  sharding.dims.resize(pin.dims.size());
  for (std::size_t dim = 0; dim < pin.dims.size(); ++dim) {
    const std::int64_t size = weight.shape[dim];
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
  if (std::ranges::all_of(sharding.dims, [](const op::Cuts& cuts) { return cuts.empty(); }))
    sharding.dims.clear();
  return sharding;
}

bool is_of(const Pin& pin, const Value& weight) {
  return may_be_pinned(weight) && matches(pin.pattern, weight.name);
}

}  // namespace

std::vector<Pin> pins_of(const graph::Graph& train, std::span<const Pin> pins) {
  std::vector<Pin> result;
  std::ranges::copy_if(pins, std::back_inserter(result), [&](const Pin& pin) {
    return std::ranges::any_of(train.values, [&](const Value& value) { return is_of(pin, value); });
  });
  return result;
}

std::vector<Problem> unused_pins(const graph::Graph& train, std::span<const Pin> pins) {
  const std::vector<Pin> used = pins_of(train, pins);
  std::vector<Problem> problems;
  for (const Pin& pin : pins) {
    if (std::ranges::find(used, pin) != used.end()) continue;
    BadPin bad{BadPin::Why::unused, pin.pattern, to_string(pin.dims), {}};
    for (const Value& weight : train.values)
      if (may_be_pinned(weight)) bad.names.push_back(weight.name);
    problems.emplace_back(std::move(bad));
  }
  return problems;
}

bool treat_layers_alike(const graph::Graph& train, std::span<const Pin> pins) {
  std::vector<bool> is_seen(train.values.size(), false);
  std::map<std::int64_t, std::vector<std::vector<bool>>> by_layer;  // by weight, then by pin
  for (const graph::Node& node : train.nodes) {
    if (node.phase != graph::Phase::forward) continue;
    for (const graph::ValueId id : node.reads) {
      const Value& weight = train.value(id);
      if (!may_be_pinned(weight) || is_seen[id.index()]) continue;
      is_seen[id.index()] = true;
      if (!node.layer) continue;
      std::vector<bool>& is_meant = by_layer[*node.layer].emplace_back();
      for (const Pin& pin : pins) is_meant.push_back(matches(pin.pattern, weight.name));
    }
  }
  return std::ranges::all_of(
      by_layer, [&](const auto& one) { return one.second == by_layer.begin()->second; });
}

std::variant<PinnedShardings, Infeasible> pinned_shardings(const graph::Graph& train,
                                                           const Mesh& mesh,
                                                           std::span<const Pin> pins) {
  PinnedShardings pinned;
  std::map<std::string, const Pin*> by;
  Infeasible infeasible;
  for (const Pin& pin : pins) {
    for (const Value& weight : train.values) {
      if (!is_of(pin, weight)) continue;
      auto sharding = sharding_of(pin, weight, mesh);
      if (auto* bad = std::get_if<BadPin>(&sharding)) {
        infeasible.problems.emplace_back(std::move(*bad));
        break;  // equal layers have equal problems
      }
      const auto [place, is_new] = by.try_emplace(weight.name, &pin);
      if (!is_new && place->second->dims != pin.dims) {
        BadPin bad{BadPin::Why::other_pin, pin.pattern, to_string(pin.dims), weight.name};
        bad.other = place->second->pattern;
        infeasible.problems.emplace_back(std::move(bad));
        break;
      }
      pinned[weight.name] = std::get<op::Sharding>(std::move(sharding));
    }
  }
  std::ranges::move(unused_pins(train, pins), std::back_inserter(infeasible.problems));
  if (!infeasible.problems.empty()) return infeasible;
  return pinned;
}

}  // namespace fourfold::plan
