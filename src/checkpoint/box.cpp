#include "checkpoint/box.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "op/sharding.h"

namespace fourfold::checkpoint {
namespace {

/// Where an element stands in the memory of a box.
std::int64_t offset_of(const Shape& element, const Box& box) {
  std::int64_t offset = 0;
  for (std::size_t dim = 0; dim < element.rank(); ++dim)
    offset = offset * box.extent[dim] + element[dim] - box.origin[dim];
  return offset;
}

/// The first dim such that `what` takes all of the dims after it, in both boxes: from there on its
/// elements are one run.
std::size_t first_contiguous_dim(const Box& what, const Box& a, const Box& b) {
  std::size_t dim = what.extent.rank();
  while (dim > 1 && what.extent[dim - 1] == a.extent[dim - 1] &&
         what.extent[dim - 1] == b.extent[dim - 1])
    --dim;
  return dim == 0 ? 0 : dim - 1;
}

/// Steps to the next element over dims [0, dims); whether there is one.
bool advance(Shape& element, const Box& what, std::size_t dims) {
  for (std::size_t dim = dims; dim-- > 0;) {
    if (++element[dim] < what.origin[dim] + what.extent[dim]) return true;
    element[dim] = what.origin[dim];
  }
  return false;
}

}  // namespace

bool Box::is_empty() const {
  return std::any_of(extent.begin(), extent.end(), [](std::int64_t n) { return n <= 0; });
}

Box whole_box(const Shape& shape) {
  return {Shape(std::vector<std::int64_t>(shape.rank(), 0)), shape};
}

Box intersection(const Box& a, const Box& b) {
  require(a.extent.rank() == b.extent.rank(), "boxes of one tensor have its dims");
  Box both;
  for (std::size_t dim = 0; dim < a.extent.rank(); ++dim) {
    const std::int64_t first = std::max(a.origin[dim], b.origin[dim]);
    const std::int64_t end = std::min(a.origin[dim] + a.extent[dim], b.origin[dim] + b.extent[dim]);
    both.origin.push_back(first);
    both.extent.push_back(std::max<std::int64_t>(end - first, 0));
  }
  return both;
}

std::string to_string(const Box& box) {
  std::string text;
  for (std::size_t dim = 0; dim < box.extent.rank(); ++dim)
    text +=
        format("{}{}:{}", dim > 0 ? ", " : "", box.origin[dim], box.origin[dim] + box.extent[dim]);
  return "[" + text + "]";
}

Box memory_box(const Mesh& mesh, const program::Buffer& buffer, std::size_t position) {
  const auto coordinates = mesh.coordinates(position);
  Box box;
  box.extent = op::local_shape(buffer.global, buffer.sharding, mesh);
  for (std::size_t dim = 0; dim < buffer.global.rank(); ++dim) {
    const bool is_cut = dim < buffer.sharding.dims.size();
    box.origin.push_back(
        is_cut ? op::first_index(buffer.global[dim], buffer.sharding.dims[dim], mesh, coordinates)
               : 0);
  }
  return box;
}

Box held_box(const Mesh& mesh, const program::Buffer& buffer, std::size_t position) {
  return intersection(memory_box(mesh, buffer, position), whole_box(buffer.global));
}

bool is_owner(const Mesh& mesh, const program::Buffer& buffer, std::size_t position) {
  std::vector<bool> cuts(mesh.axes.size(), false);
  for (const auto& dim : buffer.sharding.dims)
    for (const op::Cut& cut : dim) cuts[cut.axis.index()] = true;
  const auto coordinates = mesh.coordinates(position);
  for (std::size_t axis = 0; axis < coordinates.size(); ++axis)
    if (!cuts[axis] && coordinates[axis] != 0) return false;
  return true;
}

void for_runs(const Box& what, const Box& a, const Box& b, const VisitRun& visit) {
  if (what.is_empty()) return;
  const std::size_t dims = first_contiguous_dim(what, a, b);
  const std::int64_t run = what.extent.elements(dims, what.extent.rank());
  Shape element = what.origin;
  do {
    visit(offset_of(element, a), offset_of(element, b), run);
  } while (advance(element, what, dims));
}

void for_chunks(const Shape& shape, std::int64_t most_elements,
                const std::function<void(const Box&)>& visit) {
  const Box whole = whole_box(shape);
  if (whole.is_empty()) return;
  std::size_t cut = 0;  // the dim that chunks divide; those before it have one index in each
  while (cut + 1 < shape.rank() && shape.elements(cut + 1, shape.rank()) > most_elements) ++cut;
  if (shape.elements() <= most_elements || shape.rank() == 0) return visit(whole);
  const std::int64_t rows =
      std::max<std::int64_t>(1, most_elements / shape.elements(cut + 1, shape.rank()));
  const std::int64_t outer = shape.elements(0, cut);
  for (std::int64_t index = 0; index < outer; ++index) {
    Box chunk = whole;
    std::int64_t left = index;
    for (std::size_t dim = cut; dim-- > 0;) {
      chunk.origin[dim] = left % shape[dim];
      chunk.extent[dim] = 1;
      left /= shape[dim];
    }
    for (std::int64_t row = 0; row < shape[cut]; row += rows) {
      chunk.origin[cut] = row;
      chunk.extent[cut] = std::min(rows, shape[cut] - row);
      visit(chunk);
    }
  }
}

void copy_box(const Box& what, const Box& from_box, std::span<const std::byte> from,
              const Box& to_box, std::span<std::byte> to, std::int64_t element_bytes) {
  for_runs(what, from_box, to_box, [&](std::int64_t a, std::int64_t b, std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count * element_bytes);
    std::memcpy(to.subspan(static_cast<std::size_t>(b * element_bytes), bytes).data(),
                from.subspan(static_cast<std::size_t>(a * element_bytes), bytes).data(), bytes);
  });
}

}  // namespace fourfold::checkpoint
