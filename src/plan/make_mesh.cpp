#include "plan/make_mesh.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::plan {
namespace {

std::int64_t size_of(const Grid& grid, const std::string& axis) {
  if (axis == "x") return grid.x;
  if (axis == "y") return grid.y;
  if (axis == "z") return grid.z;
  require(axis == "data" && grid.data.has_value(), "a settled grid has the axes x, y, z and data");
  return *grid.data;
}

/// Axes that a strategy leaves at 1.
std::vector<std::pair<std::string, std::int64_t>> forbidden(const PlanSpec& spec) {
  switch (spec.strategy) {
    case Strategy::axonn:
      return {};
    case Strategy::atp:
      return {{"z", spec.grid.z}};
    case Strategy::megatron:
      return {{"y", spec.grid.y}, {"z", spec.grid.z}};
    case Strategy::fsdp:
      return {{"x", spec.grid.x}, {"y", spec.grid.y}};
  }
  fail_internal("every strategy says which axes it uses");
}

}  // namespace

std::variant<Grid, Infeasible> solve_grid(const PlanSpec& spec, std::optional<std::int64_t> ranks) {
  Infeasible infeasible;
  for (const auto& [axis, size] : forbidden(spec))
    if (size != 1) infeasible.problems.emplace_back(ForbiddenAxis{spec.strategy, axis, size});
  if (!infeasible.problems.empty()) return infeasible;

  Grid grid = spec.grid;
  const std::int64_t tensor = grid.x * grid.y * grid.z;
  if (!grid.data && ranks && *ranks % tensor != 0) return Infeasible{{UnevenJob{grid, *ranks}}};
  if (!grid.data) grid.data = ranks ? *ranks / tensor : 1;
  if (ranks && num_ranks(grid) != *ranks) return Infeasible{{UnevenJob{grid, *ranks}}};
  return grid;
}

std::int64_t num_ranks(const Grid& grid) {
  return grid.x * grid.y * grid.z * grid.data.value_or(1);
}

Mesh make_mesh(const Grid& grid) {
  Mesh mesh;
  mesh.name = "main";
  for (const std::string& axis : grid.order) mesh.axes.push_back({axis, size_of(grid, axis)});
  require(mesh.axes.size() == 4, "the order of a grid names all four axes");
  std::reverse(mesh.axes.begin(), mesh.axes.end());
  mesh.ranks = Ranks(Rank(0), static_cast<std::size_t>(num_ranks(grid)));
  return mesh;
}

Axes axes_of(const Mesh& mesh) {
  const auto find = [&](std::string_view name) {
    for (std::size_t axis = 0; axis < mesh.axes.size(); ++axis)
      if (mesh.axes[axis].name == name) return AxisId(axis);
    fail_internal(format("mesh {} has an axis {}", mesh.name, name));
  };
  return {find("data"), find("z"), find("y"), find("x")};
}

}  // namespace fourfold::plan
