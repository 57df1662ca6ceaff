// How a tensor gets from one state on a mesh to another, as a list of collectives.
#pragma once

#include <vector>

#include "op/sharding.h"

namespace fourfold::compile {

enum class MoveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  slice,  // each rank takes its own block of a dim
  copy,   // as it is
  pack,
  unpack
};

/// True if ranks send each other something.
constexpr bool is_collective(MoveKind kind) {
  return kind == MoveKind::all_reduce || kind == MoveKind::reduce_scatter ||
         kind == MoveKind::all_gather || kind == MoveKind::all_to_all;
}

/// One change of state: of an all-reduce along all axes that it reduces, of the others along one.
struct Conversion {
  MoveKind kind = MoveKind::all_reduce;
  std::vector<AxisId> axes;  // in the order of the mesh
  op::Reduction reduction = op::Reduction::sum;
  std::size_t dim = 0;       // that gains or loses the cut
  std::size_t from_dim = 0;  // all_to_all: that loses it
  op::Sharding after;
  bool operator==(const Conversion&) const = default;
};

/// A copy, which changes nothing of how a tensor lies.
Conversion copy_in(const op::Sharding& sharding);

/// The conversions from `from` to `to`, those that make the tensor smaller first: slices,
/// reduce-scatters, all-reduces, all-to-alls, all-gathers. Requires one mesh, and `to` partial only
/// where `from` is. Cuts are changed at their innermost end. Empty where both are equal.
std::vector<Conversion> conversion_path(const op::Sharding& from, const op::Sharding& to);

}  // namespace fourfold::compile
