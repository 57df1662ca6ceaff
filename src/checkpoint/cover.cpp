#include "checkpoint/cover.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
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

using Boxes = std::span<const Box*>;

std::string overlap_text(const StoredTensor& tensor, const Box& a, const Box& b) {
  return format("{}: the slices {} and {} overlap", tensor.name, to_string(a), to_string(b));
}

/// Slices whose cuts cross: only few of them can be compared with each other.
std::string find_overlap_in_pairs(const StoredTensor& tensor, Boxes boxes) {
  constexpr std::size_t most = 2000;
  if (boxes.size() > most)
    return format("{}: more than {} of its slices do not lie in rows and columns", tensor.name,
                  most);
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t j = i + 1; j < boxes.size(); ++j)
      if (!intersection(*boxes[i], *boxes[j]).is_empty())
        return overlap_text(tensor, *boxes[i], *boxes[j]);
  return {};
}

/// Two slices that share an element, among those that are equal in all dims before `dim`. Slices of
/// a mesh lie in a grid: in each dim two of them have the same stretch or none in common. Cost: n
/// log n in each dim then.
std::string find_overlap(const StoredTensor& tensor, Boxes boxes, std::size_t dim) {
  if (boxes.size() < 2) return {};
  if (dim == tensor.shape.rank()) return overlap_text(tensor, *boxes[0], *boxes[1]);
  const auto stretch = [&](const Box* box) {
    return std::pair(box->origin[dim], box->extent[dim]);
  };
  std::sort(boxes.begin(), boxes.end(),
            [&](const Box* a, const Box* b) { return stretch(a) < stretch(b); });
  for (std::size_t i = 1; i < boxes.size(); ++i) {
    const auto [origin, extent] = stretch(boxes[i - 1]);
    if (stretch(boxes[i]) != stretch(boxes[i - 1]) && boxes[i]->origin[dim] < origin + extent)
      return find_overlap_in_pairs(tensor, boxes);
  }
  for (std::size_t begin = 0, end = 0; begin < boxes.size(); begin = end) {
    while (end < boxes.size() && stretch(boxes[end]) == stretch(boxes[begin])) ++end;
    if (auto found = find_overlap(tensor, boxes.subspan(begin, end - begin), dim + 1);
        !found.empty())
      return found;
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
  std::vector<const Box*> boxes;
  for (const Slice& slice : tensor.slices) boxes.push_back(&slice.box);
  if (const std::string overlap = find_overlap(tensor, boxes, 0); !overlap.empty()) return overlap;
  if (covered != *wanted)
    return format("{}: its slices hold {} of {} elements", tensor.name, covered, *wanted);
  return {};
}

}  // namespace fourfold::checkpoint
