#include "reshard/slices.h"

#include "base/error.h"

namespace fourfold::reshard {
namespace {

/// Some dims as one: `size` steps of `stride_bytes`.
struct Loop {
  std::int64_t size = 1, stride_bytes = 0;
};

/// Outermost first; dims of one step are left out, and those that follow each other in memory
/// without a break are one. The last has the elements themselves for steps.
std::vector<Loop> loops_of(const Box& box, const Shape& stored, std::int64_t element_bytes) {
  std::vector<Loop> reversed{{1, element_bytes}};  // innermost first
  std::int64_t stride = element_bytes;
  for (std::size_t dim = box.size(); dim-- > 0;) {
    const std::int64_t size = box[dim].size();
    Loop& inner = reversed.back();
    if (size > 1 && inner.size * inner.stride_bytes == stride)
      inner.size *= size;
    else if (size > 1)
      reversed.push_back({size, stride});
    stride *= stored[dim];
  }
  return {reversed.rbegin(), reversed.rend()};
}

void add_slices(const std::vector<Loop>& loops, std::size_t first, std::int64_t offset,
                std::vector<Slice>& slices) {
  const std::size_t left = loops.size() - first;
  const std::int64_t row_bytes = loops.back().size * loops.back().stride_bytes;
  if (left == 1) {
    slices.push_back({offset, 1, row_bytes, row_bytes});
  } else if (left == 2) {
    slices.push_back({offset, loops[first].size, row_bytes, loops[first].stride_bytes});
  } else {
    for (std::int64_t step = 0; step < loops[first].size; ++step)
      add_slices(loops, first + 1, offset + step * loops[first].stride_bytes, slices);
  }
}

}  // namespace

std::vector<Slice> slices_of(const Box& box, const Box& local, const Shape& stored,
                             std::int64_t element_bytes) {
  std::vector<Slice> slices;
  if (elements(box) == 0) return slices;
  require(box.size() == local.size() && stored.rank() == local.size() && contains(local, box),
          "a box that is moved is part of what the rank has");
  std::int64_t offset = 0;
  for (std::size_t dim = 0; dim < box.size(); ++dim)
    offset = offset * stored[dim] + box[dim].begin - local[dim].begin;
  add_slices(loops_of(box, stored, element_bytes), 0, offset * element_bytes, slices);
  return slices;
}

std::vector<Slice> slices_of(const Box& box, const Box& local, std::int64_t element_bytes) {
  Shape stored;
  for (const Range& range : local) stored.push_back(range.size());
  return slices_of(box, local, stored, element_bytes);
}

}  // namespace fourfold::reshard
