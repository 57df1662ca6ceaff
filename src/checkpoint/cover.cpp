#include "checkpoint/cover.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "base/format.h"

namespace fourfold::checkpoint {
namespace {

bool lies_in(const Box& box, const Shape& shape) {
  if (box.origin.rank() != shape.rank() || box.extent.rank() != shape.rank()) return false;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim)
    if (box.extent[dim] > shape[dim] || box.origin[dim] > shape[dim] - box.extent[dim])
      return false;
  return true;
}

/// Number of elements, or nothing where it does not fit 63 bits.
std::optional<std::int64_t> count_elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) {
    if (n != 0 && count > std::numeric_limits<std::int64_t>::max() / 16 / n) return std::nullopt;
    count *= n;
  }
  return count;
}

/// Two slices that share an element. They are sorted by origin, so that only those which begin
/// before the end of another in the first dim need to be compared with it.
std::string find_overlap(const StoredTensor& tensor) {
  std::vector<const Box*> boxes;
  for (const Slice& slice : tensor.slices) boxes.push_back(&slice.box);
  std::sort(boxes.begin(), boxes.end(),
            [](const Box* a, const Box* b) { return a->origin.dims() < b->origin.dims(); });
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t j = i + 1; j < boxes.size(); ++j) {
      const bool is_past = tensor.shape.rank() > 0 &&
                           boxes[j]->origin[0] >= boxes[i]->origin[0] + boxes[i]->extent[0];
      if (is_past) break;
      if (!intersection(*boxes[i], *boxes[j]).is_empty())
        return format("{}: the slices {} and {} overlap", tensor.name, to_string(*boxes[i]),
                      to_string(*boxes[j]));
    }
  return {};
}

}  // namespace

std::string find_gap_or_overlap(const StoredTensor& tensor) {
  const auto wanted = count_elements(tensor.shape);
  if (!wanted) return format("{}: has too many elements", tensor.name);
  std::int64_t covered = 0;
  for (const Slice& slice : tensor.slices) {
    if (!lies_in(slice.box, tensor.shape))
      return format("{}: a slice lies outside its shape {}", tensor.name, to_string(tensor.shape));
    if (slice.box.is_empty() && *wanted > 0)
      return format("{}: the slice {} is empty", tensor.name, to_string(slice.box));
    covered += slice.box.elements();
    if (covered > *wanted) break;
  }
  if (const std::string overlap = find_overlap(tensor); !overlap.empty()) return overlap;
  if (covered != *wanted)
    return format("{}: its slices hold {} of {} elements", tensor.name, covered, *wanted);
  return {};
}

}  // namespace fourfold::checkpoint
