// A mesh: an explicit set of ranks arranged along named axes. Not a device description (machine/)
// and not a plan.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace fourfold {

/// A process of the job, counted from 0.
using Rank = Id<struct RankTag>;
/// A mesh of the plan, and an axis of one mesh (index into Mesh::axes).
using MeshId = Id<struct MeshTag>;
using AxisId = Id<struct AxisTag>;

struct Axis {
  std::string name;  // "data", "z", "y", "x"
  std::int64_t size = 1;
  bool operator==(const Axis&) const = default;
};

/// Ranks in row-major order of the axes: the last axis varies fastest.
struct Mesh {
  std::string name;
  std::vector<Axis> axes;
  std::vector<Rank> ranks;  // as many as the product of the axis sizes
  bool operator==(const Mesh&) const = default;

  /// Coordinates of the i-th rank of the mesh, one per axis.
  std::vector<std::int64_t> coordinates(std::size_t position) const {
    std::vector<std::int64_t> result(axes.size());
    auto rest = static_cast<std::int64_t>(position);
    for (std::size_t axis = axes.size(); axis-- > 0;) {
      result[axis] = rest % axes[axis].size;
      rest /= axes[axis].size;
    }
    return result;
  }
};

}  // namespace fourfold
