// The mesh that a grid describes.
#pragma once

#include <variant>

#include "base/mesh.h"
#include "plan/infeasible.h"
#include "plan/plan_spec.h"

namespace fourfold::plan {

/// The grid, of the first stage where there are several, with its number of data-parallel ranks
/// settled for a job of `ranks` ranks; where the job's size is not given, `data` defaults to 1.
/// Infeasible where the product does not fit.
std::variant<Grid, Infeasible> solve_grid(const PlanSpec& spec, std::optional<std::int64_t> ranks);

/// Number of ranks of a settled grid.
std::int64_t num_ranks(const Grid& grid);

/// Ranks 0 ... n - 1 in the order of the grid. Requires a settled grid.
Mesh make_mesh(const Grid& grid);

/// The axes by name.
struct Axes {
  AxisId data, z, y, x;
};
Axes axes_of(const Mesh& mesh);

}  // namespace fourfold::plan
