#include "search/cut_choices.h"

#include <algorithm>

namespace fourfold::search {
namespace {

struct Walk {
  const Mesh& mesh;
  const FixedCuts& fixed;
  std::string_view padded;
  const std::function<void(const plan::FactorAxes&)>& visit;
  op::FactorSizes left;  // what the axes before leave of each factor
  plan::FactorAxes cuts;

  void go(std::span<const AxisId> axes) {
    if (axes.empty()) return visit(cuts);
    const auto place = fixed.find(axes[0]);
    const std::int64_t ranks = mesh.axes[axes[0].index()].size;
    if (place == fixed.end() || !place->second) go(axes.subspan(1));
    for (auto& [factor, size] : left) {
      const std::int64_t held = (size + ranks - 1) / ranks;
      const bool may_cut = size % ranks == 0 || (padded.find(factor) != std::string_view::npos &&
                                                 held * (ranks - 1) < size);
      if (!may_cut || (place != fixed.end() && place->second != factor)) continue;
      const auto before = cuts;
      const std::int64_t whole = size;
      cuts[factor].push_back(axes[0]);
      size = held;
      go(axes.subspan(1));
      size = whole;
      cuts = before;
    }
  }
};

}  // namespace

std::vector<AxisId> axes_to_cut(const Mesh& mesh, const std::vector<AxisId>& samples) {
  std::vector<AxisId> axes;
  for (const AxisId axis : samples)
    if (mesh.axes[axis.index()].size > 1) axes.push_back(axis);
  for (std::size_t i = 0; i < mesh.axes.size(); ++i)
    if (mesh.axes[i].size > 1 && std::ranges::find(axes, AxisId(i)) == axes.end())
      axes.emplace_back(i);
  return axes;
}

void for_each_cuts(const Mesh& mesh, std::span<const AxisId> axes, const FixedCuts& fixed,
                   const op::FactorSizes& sizes, std::string_view padded,
                   const std::function<void(const plan::FactorAxes&)>& visit) {
  Walk{mesh, fixed, padded, visit, sizes, {}}.go(axes);
}

op::FactorSizes dims_as_factors(const Shape& shape) {
  op::FactorSizes sizes;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim)
    sizes[static_cast<char>('a' + dim)] = shape[dim];
  return sizes;
}

op::Sharding sharding_of(const plan::FactorAxes& cuts, const Shape& shape, const Mesh& mesh) {
  op::Sharding sharding;
  sharding.dims.resize(shape.rank());
  for (const auto& [letter, axes] : cuts) {
    const auto dim = static_cast<std::size_t>(letter - 'a');
    sharding.dims[dim] = plan::cuts_of_dim(shape[dim], axes, mesh);
  }
  return sharding;
}

bool has_strides(const op::Sharding& sharding) {
  return std::ranges::any_of(sharding.dims, [](const op::Cuts& cuts) {
    return std::ranges::any_of(cuts, [](const op::Cut& cut) { return cut.stride.has_value(); });
  });
}

bool has_padding(const Shape& shape, const op::Sharding& sharding, const Mesh& mesh) {
  bool has_some = false;
  for (std::size_t dim = 0; dim < sharding.dims.size(); ++dim) {
    const op::Cuts& cuts = sharding.dims[dim];
    if (op::is_cyclic(shape[dim], cuts, mesh)) return false;
    std::int64_t ranks = 1;
    for (const op::Cut& cut : cuts) ranks *= mesh.axes[cut.axis.index()].size;
    has_some = has_some || (shape[dim] % ranks != 0 && cuts.back().stride);
  }
  return has_some;
}

op::Sharding reduced(op::Sharding sharding) {
  sharding.partial.clear();
  return sharding;
}

}  // namespace fourfold::search
