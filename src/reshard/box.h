// Boxes: what a rank has of a tensor, in coordinates of the whole tensor. Not addresses: those are
// slices.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/shape.h"

namespace fourfold::reshard {

/// The indices begin ... end - 1 of a dim.
struct Range {
  std::int64_t begin = 0, end = 0;
  auto operator<=>(const Range&) const = default;

  std::int64_t size() const { return end - begin; }
};

/// A range for each dim, outermost first. The box of a scalar has no ranges and one element.
using Box = std::vector<Range>;

/// All of a tensor.
Box whole(const Shape& shape);
std::int64_t elements(const Box& box);
/// What two boxes of as many dims share; its empty ranges begin where they end.
Box intersection(const Box& a, const Box& b);
/// True where every element of `inner` is one of `outer`.
bool contains(const Box& outer, const Box& inner);
/// "[0:4, 2:3]".
std::string to_text(const Box& box);

/// Exactly `count` boxes which together are the box, in its order: along the first dim that they
/// divide, else the first that is long enough, else the longest, so that some are empty. Their
/// lengths differ by one at most. Requires count > 0.
std::vector<Box> shares_of(const Box& box, std::int64_t count);
/// The same for as many boxes as are wanted, or somewhat more, none of them empty: where no dim
/// alone is long enough, the first is cut into single indices, and each of them further. As many as
/// the box has elements, at most.
std::vector<Box> chunks_of(const Box& box, std::int64_t count);

}  // namespace fourfold::reshard
