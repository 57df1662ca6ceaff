// How a tensor lies on a mesh: the one notation for all parallel strategies. Not a layout in
// memory.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mesh.h"
#include "base/reduction.h"
#include "base/shape.h"

namespace fourfold::op {

/// One cut of a dim: the element with index i lives at coordinate (i / stride) mod n of the axis, n
/// its size. No stride means whole blocks: stride = ceil(size / n) of what the cuts before it
/// leave. Where several cuts leave padding (an odd vocabulary), each states its stride, n times
/// that of the next, so that gathering the innermost one gives the blocks of the others.
struct Cut {
  AxisId axis;
  std::optional<std::int64_t> stride;
  bool operator==(const Cut&) const = default;
};

using fourfold::Reduction;

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

/// How many elements of a dim of `size` one rank holds, padding included: the same on all ranks.
std::int64_t local_size(std::int64_t size, std::span<const Cut> cuts, const Mesh& mesh);
/// The index of the first of them, for cuts in whole blocks; indices from `size` on are padding.
std::int64_t first_index(std::int64_t size, std::span<const Cut> cuts, const Mesh& mesh,
                         std::span<const std::int64_t> coordinates);
/// The shape that one rank holds, padding included.
Shape local_shape(const Shape& global, const Sharding& sharding, const Mesh& mesh);

/// "[12 (data,z), 64, 128 (y)] partial sum(x)", axis names from the mesh; a stride stands after a
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
