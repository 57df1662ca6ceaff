#include "search/cut_choices.h"

#include <algorithm>

namespace fourfold::search {
namespace {

struct Walk {
  const Mesh& mesh;
  const FixedCuts& fixed;
  const std::function<void(const plan::FactorAxes&)>& visit;
  op::FactorSizes left;  // what the axes before leave of each factor
  plan::FactorAxes cuts;

  void go(std::span<const AxisId> axes) {
    if (axes.empty()) return visit(cuts);
    const auto place = fixed.find(axes[0]);
    const std::int64_t ranks = mesh.axes[axes[0].index()].size;
    if (place == fixed.end() || !place->second) go(axes.subspan(1));
    for (auto& [factor, size] : left) {
      if (size % ranks != 0 || (place != fixed.end() && place->second != factor)) continue;
      const auto before = cuts;
      cuts[factor].push_back(axes[0]);
      size /= ranks;
      go(axes.subspan(1));
      size *= ranks;
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
                   const op::FactorSizes& sizes,
                   const std::function<void(const plan::FactorAxes&)>& visit) {
  Walk{mesh, fixed, visit, sizes, {}}.go(axes);
}

op::FactorSizes dims_as_factors(const Shape& shape) {
  op::FactorSizes sizes;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim)
    sizes[static_cast<char>('a' + dim)] = shape[dim];
  return sizes;
}

op::Sharding sharding_of(const plan::FactorAxes& cuts, std::size_t rank) {
  op::Sharding sharding;
  sharding.dims.resize(rank);
  for (const auto& [letter, axes] : cuts)
    for (const AxisId axis : axes)
      sharding.dims[static_cast<std::size_t>(letter - 'a')].push_back({axis, std::nullopt});
  return sharding;
}

bool is_cut_by(const op::Sharding& sharding, AxisId axis) {
  return std::ranges::any_of(sharding.dims, [&](const op::Cuts& cuts) {
    return std::ranges::any_of(cuts, [&](const op::Cut& cut) { return cut.axis == axis; });
  });
}

bool has_strides(const op::Sharding& sharding) {
  return std::ranges::any_of(sharding.dims, [](const op::Cuts& cuts) {
    return std::ranges::any_of(cuts, [](const op::Cut& cut) { return cut.stride.has_value(); });
  });
}

op::Sharding reduced(op::Sharding sharding) {
  sharding.partial.clear();
  return sharding;
}

}  // namespace fourfold::search
