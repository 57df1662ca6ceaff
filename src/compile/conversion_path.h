// How a tensor gets from one state on a mesh to another, as a list of collectives.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/collective.h"
#include "op/sharding.h"

namespace fourfold::compile {

/// A move in which ranks send each other nothing.
enum class OwnMove : std::uint8_t {
  slice,  // each rank takes its own block of a dim
  copy,   // as it is
  pack,
  unpack
};

/// How a tensor moves: in a collective, or on each rank by itself.
class MoveKind {
 public:
  constexpr MoveKind(Collective collective) : collective_(collective) {}
  constexpr MoveKind(OwnMove own) : own_(own) {}
  constexpr auto operator<=>(const MoveKind&) const = default;

  /// The collective; none: ranks send each other nothing.
  constexpr std::optional<Collective> collective() const { return collective_; }
  /// What a rank does by itself. Requires that it is no collective.
  constexpr OwnMove own() const { return own_; }
  /// Both sides are one tensor.
  constexpr bool is_in_place() const { return collective_ && facts_of(*collective_).is_in_place(); }

 private:
  std::optional<Collective> collective_;
  OwnMove own_ = OwnMove::slice;
};

/// True if ranks send each other something.
constexpr bool is_collective(MoveKind kind) {
  return kind.collective().has_value();
}

/// One change of state: of an all-reduce along all axes that it reduces, of the others along one.
struct Conversion {
  MoveKind kind = Collective::all_reduce;
  std::vector<AxisId> axes;  // in the order of the mesh
  op::Reduction reduction = op::Reduction::sum;
  std::size_t dim = 0;       // that gains or loses the cut
  std::size_t from_dim = 0;  // that loses it, where another one gains it
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
