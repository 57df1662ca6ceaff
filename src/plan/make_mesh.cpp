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
  require(axis == "data", "a grid has the axes x, y, z and data");
  return grid.data;
}

/// Axes that a strategy leaves at 1.
std::vector<std::pair<std::string, std::int64_t>> forbidden(Strategy strategy, const Grid& grid) {
  switch (strategy) {
    case Strategy::axonn:
    case Strategy::searched:
      return {};
    case Strategy::atp:
      return {{"z", grid.z}};
    case Strategy::megatron:
      return {{"y", grid.y}, {"z", grid.z}};
    case Strategy::fsdp:
      return {{"x", grid.x}, {"y", grid.y}};
  }
  fail_internal("every strategy says which axes it uses");
}

/// The grid of the first mesh, where each has one of its own.
std::variant<Grid, Infeasible> first_mesh(const PipelineSpec& pipeline,
                                          std::optional<std::int64_t> ranks) {
  const auto meshes = static_cast<std::int64_t>(pipeline.grids.size());
  std::int64_t sum = 0;
  for (const Grid& grid : pipeline.grids) sum += num_ranks(grid);
  if (meshes != pipeline.meshes() || (ranks && sum != *ranks))
    return Infeasible{
        {UnevenMeshes{pipeline.stages, meshes, sum, ranks, pipeline.stages_per_mesh}}};
  return pipeline.grids[0];
}

}  // namespace

std::variant<Grid, Infeasible> solve_grid(const PlanSpec& spec, std::optional<std::int64_t> ranks,
                                          DataRanks data) {
  const PipelineSpec& pipeline = spec.pipeline;
  const std::vector<Grid> grids =
      pipeline.grids.empty() ? std::vector<Grid>{spec.grid} : pipeline.grids;
  Infeasible infeasible;
  for (const Grid& grid : grids)
    for (const auto& [axis, size] : forbidden(spec.strategy, grid))
      if (size != 1) infeasible.problems.emplace_back(ForbiddenAxis{spec.strategy, axis, size});
  if (pipeline.stages % pipeline.stages_per_mesh != 0)
    infeasible.problems.emplace_back(UnevenStages{pipeline.stages, pipeline.stages_per_mesh});
  if (!infeasible.problems.empty()) return infeasible;
  if (!pipeline.grids.empty()) return first_mesh(pipeline, ranks);

  Grid grid = spec.grid;
  const std::int64_t tensor = grid.x * grid.y * grid.z, meshes = pipeline.meshes();
  const Infeasible uneven{{UnevenJob{grid, data == DataRanks::open, ranks.value_or(0),
                                     pipeline.stages, pipeline.stages_per_mesh}}};
  if (data == DataRanks::open && ranks && *ranks % (tensor * meshes) != 0) return uneven;
  if (data == DataRanks::open) grid.data = ranks ? *ranks / (tensor * meshes) : 1;
  if (ranks && num_ranks(grid) * meshes != *ranks) return uneven;
  return grid;
}

std::int64_t num_ranks(const Grid& grid) {
  return grid.x * grid.y * grid.z * grid.data;
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
