// Where a tensor is on a mesh: the box of each of its ranks. Not how it got there.
#pragma once

#include <string_view>
#include <vector>

#include "base/mesh.h"
#include "base/shape.h"
#include "op/sharding.h"
#include "reshard/box.h"

namespace fourfold::reshard {

/// Each rank of a mesh holds one box; boxes of two ranks are equal or share nothing, and all
/// together are the tensor.
struct Placement {
  Shape shape;  // of the tensor
  Ranks ranks;
  std::vector<Box> boxes;  // in the order of the ranks; without padding, so some may be empty
  bool operator==(const Placement&) const = default;
};

/// The boxes of a sharding, on a mesh of any number of axes. Requires cuts in whole blocks, and no
/// partial axes: what a rank sends is a part of the tensor, not a term of it.
Placement placement_of(const Shape& shape, const op::Sharding& sharding, const Mesh& mesh);

/// A device mesh of two dims, as the paper has it (Zhuang et al. 2023, section 2.2), row-major.
struct MeshShape {
  std::int64_t rows = 1, columns = 1;
  bool operator==(const MeshShape&) const = default;

  std::int64_t ranks() const { return rows * columns; }
};
/// Reads "2x4". Errors: UserError(bad_config).
MeshShape parse_mesh_shape(std::string_view text);

/// The boxes of a sharding spec, one letter for each dim: "S0RR", "RS01R", also "S^0RR" and
/// "RS^{01}R". S with the dims of the mesh that cut it, outermost first; R where all ranks have the
/// whole dim. A dim of the tensor that does not divide is cut into tiles of ceil(size / ranks), the
/// last ones shorter or empty. Errors: UserError(bad_config), with what a spec looks like.
Placement placement_of(const Shape& shape, std::string_view spec, MeshShape mesh,
                       const Ranks& ranks);

}  // namespace fourfold::reshard
