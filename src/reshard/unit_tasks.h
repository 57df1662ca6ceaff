// What has to pass between two placements of a tensor, cut into tasks. Not who sends and when.
#pragma once

#include <vector>

#include "reshard/placement.h"

namespace fourfold::reshard {

/// A box that some ranks hold whole and others want whole.
struct UnitTask {
  Box box;
  std::vector<Rank> holders, receivers;  // ascending; a rank of both meshes may be in both
  bool operator==(const UnitTask&) const = default;
};

/// The intersections of the boxes of the source with those of the destination, none of them empty,
/// each once: by box of the source in the order of its ranks, then of the destination. The paper
/// defines a task for each box of the source (section 2.2), and counts intersections (section
/// 5.1.2, the 64 of case 4); by boxes of the source, ranks would get more than they want.
/// Cost: linear in ranks and tasks, and for each dim in the product of its ranges on both sides.
/// Requires placements of one shape.
std::vector<UnitTask> unit_tasks(const Placement& from, const Placement& to);

}  // namespace fourfold::reshard
