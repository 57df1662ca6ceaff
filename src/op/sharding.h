// How a tensor lies on a mesh: the one notation for all parallel strategies. Not a layout in
// memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "base/shape.h"

namespace fourfold::op {

/// One cut of a dim: the element with index i lives at coordinate (i / stride) mod n of the axis, n
/// its size. No stride means whole blocks: stride = ceil(size / n).
struct Cut {
  AxisId axis;
  std::optional<std::int64_t> stride;
  bool operator==(const Cut&) const = default;
};

enum class Reduction { sum, max };

/// The values of the ranks along `axis` are terms; the tensor is their sum or maximum.
struct Partial {
  AxisId axis;
  Reduction reduction = Reduction::sum;
  bool operator==(const Partial&) const = default;
};

/// The state of a tensor on its mesh. On axes that neither cut a dim nor are partial it is
/// replicated.
struct Sharding {
  MeshId mesh;
  std::vector<std::vector<Cut>> dims;  // outermost cut first; empty: no dim is cut
  std::vector<Partial> partial;        // ordered by axis
  bool operator==(const Sharding&) const = default;

  bool replicated() const;
  const Partial* partial_on(AxisId axis) const;
};

/// The shape that one rank holds. Requires every cut to divide its dim (plan/ guarantees it).
Shape local_shape(const Shape& global, const Sharding& sharding, const Mesh& mesh);

/// "[12 (data,z), 64, 128 (y)] partial sum(x)", axis names from the mesh; a stride stands behind a
/// colon, "(y:4)".
std::string to_string(const Shape& global, const Sharding& sharding, const Mesh& mesh);

/// Dims and cuts as to_string writes them, without the partial axes. Nothing where the text is
/// malformed or names an axis that the mesh does not have.
struct ShardedShape {
  Shape shape;
  Sharding sharding;
};
std::optional<ShardedShape> parse_sharded_shape(std::string_view text, MeshId mesh_id,
                                                const Mesh& mesh);

}  // namespace fourfold::op
