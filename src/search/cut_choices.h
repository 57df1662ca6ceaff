// The ways in which the axes of a mesh may cut the factors of an op or the dims of a tensor: each
// axis cuts one of them that it divides, or none.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/mesh.h"
#include "op/factors.h"
#include "plan/layout.h"

namespace fourfold::search {

/// Axes of a mesh that have more than one rank, those of samples first: the order in which several
/// of them cut one factor.
std::vector<AxisId> axes_to_cut(const Mesh& mesh, const std::vector<AxisId>& samples);

/// Axes that are not open, each with the factor that it cuts, if any.
using FixedCuts = std::map<AxisId, std::optional<char>>;

/// Calls `visit` for every way to cut factors of these sizes. An axis of `fixed` cuts its factor
/// wherever it divides it, and nothing else. Those of `padded` need not be divided, but each rank
/// has some of them.
void for_each_cuts(const Mesh& mesh, std::span<const AxisId> axes, const FixedCuts& fixed,
                   const op::FactorSizes& sizes, std::string_view padded,
                   const std::function<void(const plan::FactorAxes&)>& visit);

/// The dims of a shape as factors: the first is 'a'.
op::FactorSizes dims_as_factors(const Shape& shape);
/// The sharding of a tensor of that shape whose dims, as factors, are cut so.
op::Sharding sharding_of(const plan::FactorAxes& cuts, const Shape& shape, const Mesh& mesh);
bool has_strides(const op::Sharding& sharding);
/// True if a rank has padding of some dim: its cuts state strides, and no dim is cut cyclically.
bool has_padding(const Shape& shape, const op::Sharding& sharding, const Mesh& mesh);
/// The sharding without its partial sums.
op::Sharding reduced(op::Sharding sharding);

}  // namespace fourfold::search
