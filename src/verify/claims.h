// What a program claims about its buffers, in one form that compares: which part of every tensor
// this rank holds. Its arithmetic is its own; the shapes are op::local_shape's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "verify/language.h"

namespace fourfold::verify {

/// The strides of cuts that nest in whole blocks: the first cut covers `size` and each other one
/// divides the block before it. Nothing where they do not, as in a cyclic cut.
std::optional<std::vector<std::int64_t>> block_strides(const std::vector<op::Cut>& cuts,
                                                       std::int64_t size, const Mesh& mesh);

/// The claims of one program as one rank sees them. Each is computed when it is first asked for.
/// Requires what check_structure proves.
class Claims {
 public:
  explicit Claims(const Program& program);

  const Program& program() const { return program_; }
  const Mesh& mesh(BufferId id) const {
    return program_.meshes[program_.buffer(id).sharding.mesh.index()];
  }
  /// The claimed sharding without axes of size 1; strides stand only where the blocks are not those
  /// of plain cuts; dims are empty where none is cut.
  const op::Sharding& of(BufferId id);
  const std::vector<op::Cut>& cuts(BufferId id, std::size_t dim);
  /// The index, in the whole tensor, of this rank's first element of a dim.
  std::int64_t first(BufferId id, std::size_t dim);
  /// This rank's coordinate on an axis of the mesh of a buffer.
  std::int64_t coordinate(BufferId id, AxisId axis) const;

  /// The claimed cuts of a slice as an op sees it (see Program::view_shape), not partial. Nothing
  /// where the view mixes a cut dim with others, so that no cut describes it.
  std::optional<op::Sharding> view(const Slice& slice, DType dtype);
  /// Rows of dim 0 that lie before a slice of whole rows; nothing for any other slice.
  std::optional<std::int64_t> rows_before(const Slice& slice) const;
  /// This rank's block where `dim` of a buffer is cut further, by `added`; nothing where these cuts
  /// do not nest in whole blocks.
  std::optional<Slice> own_block(BufferId id, std::size_t dim, const std::vector<op::Cut>& added);

 private:
  const Program& program_;
  std::vector<std::vector<std::int64_t>> coordinates_;  // of each mesh; empty: not on it
  std::vector<std::optional<op::Sharding>> claims_;
};

}  // namespace fourfold::verify
