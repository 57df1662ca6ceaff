// The mesh that a grid describes.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/mesh.h"
#include "plan/infeasible.h"
#include "plan/plan_spec.h"

namespace fourfold::plan {

/// How many ranks share the samples: as many as the grid says, or all that its other axes leave.
enum class DataRanks : std::uint8_t { stated, open };

/// The grid, of the first stage where there are several, for a job of so many ranks; none: as many
/// as it needs, where one rank of data is enough. Infeasible where the product does not fit.
std::variant<Grid, Infeasible> solve_grid(const PlanSpec& spec, std::optional<std::int64_t> ranks,
                                          DataRanks data = DataRanks::stated);

std::int64_t num_ranks(const Grid& grid);

/// Ranks 0 ... n - 1 in the order of the grid.
Mesh make_mesh(const Grid& grid);

/// The axes by name.
struct Axes {
  AxisId data, z, y, x;
};
Axes axes_of(const Mesh& mesh);

}  // namespace fourfold::plan
