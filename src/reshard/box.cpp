#include "reshard/box.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace fourfold::reshard {
namespace {

/// The dim along which `count` shares are cut.
std::size_t shared_dim(const Box& box, std::int64_t count) {
  for (std::size_t dim = 0; dim < box.size(); ++dim)
    if (box[dim].size() > 0 && box[dim].size() % count == 0) return dim;
  for (std::size_t dim = 0; dim < box.size(); ++dim)
    if (box[dim].size() >= count) return dim;
  const auto longest = std::ranges::max_element(box, {}, &Range::size);
  return static_cast<std::size_t>(longest - box.begin());
}

std::vector<Box> cut(const Box& box, std::size_t dim, std::int64_t count) {
  const Range range = box[dim];
  std::vector<Box> boxes(static_cast<std::size_t>(count), box);
  for (std::int64_t i = 0; i < count; ++i)
    boxes[static_cast<std::size_t>(i)][dim] = {range.begin + i * range.size() / count,
                                               range.begin + (i + 1) * range.size() / count};
  return boxes;
}

void add_chunks(const Box& box, std::size_t first_dim, std::int64_t count,
                std::vector<Box>& chunks) {
  for (std::size_t dim = first_dim; dim < box.size(); ++dim) {
    const std::int64_t size = box[dim].size();
    if (size >= count) {
      std::ranges::move(cut(box, dim, count), std::back_inserter(chunks));
      return;
    }
    if (size == 1) continue;
    for (const Box& single : cut(box, dim, size))
      add_chunks(single, dim + 1, (count + size - 1) / size, chunks);
    return;
  }
  chunks.push_back(box);
}

}  // namespace

Box whole(const Shape& shape) {
  Box box;
  for (const std::int64_t size : shape) box.push_back({0, size});
  return box;
}

std::int64_t elements(const Box& box) {
  std::int64_t product = 1;
  for (const Range& range : box) product *= range.size();
  return product;
}

Box intersection(const Box& a, const Box& b) {
  require(a.size() == b.size(), "boxes of one tensor have as many dims");
  Box common;
  for (std::size_t dim = 0; dim < a.size(); ++dim) {
    const std::int64_t begin = std::max(a[dim].begin, b[dim].begin);
    common.push_back({begin, std::max(begin, std::min(a[dim].end, b[dim].end))});
  }
  return common;
}

bool contains(const Box& outer, const Box& inner) {
  return intersection(outer, inner) == inner || elements(inner) == 0;
}

std::string to_text(const Box& box) {
  std::string text;
  for (const Range& range : box)
    text += format("{}{}:{}", text.empty() ? "" : ", ", range.begin, range.end);
  return format("[{}]", text);
}

std::vector<Box> shares_of(const Box& box, std::int64_t count) {
  require(count > 0, "a box is shared by somebody");
  if (box.empty()) {  // a scalar: the first has it
    std::vector<Box> boxes(static_cast<std::size_t>(count), Box{{0, 0}});
    boxes.front() = box;
    return boxes;
  }
  return cut(box, shared_dim(box, count), count);
}

std::vector<Box> chunks_of(const Box& box, std::int64_t count) {
  std::vector<Box> chunks;
  if (elements(box) > 0) add_chunks(box, 0, std::max<std::int64_t>(1, count), chunks);
  return chunks;
}

}  // namespace fourfold::reshard
