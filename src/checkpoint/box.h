// Parts of logical tensors: which one a rank holds, and how bytes move between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/mesh.h"
#include "base/shape.h"
#include "program/program.h"

namespace fourfold::checkpoint {

/// Elements [origin, origin + extent) of each dim of a logical tensor; of a scalar, all of it.
struct Box {
  Shape origin, extent;
  bool operator==(const Box&) const = default;

  std::int64_t elements() const { return extent.elements(); }
  bool is_empty() const;
};

/// All of a tensor.
Box whole_box(const Shape& shape);
/// What two boxes with the same number of dims have in common; empty extents are 0.
Box intersection(const Box& a, const Box& b);
/// "[0:16, 32:64]".
std::string to_string(const Box& box);

/// Where the memory of a rank's buffer lies in the logical tensor: dense, row-major, and beyond the
/// tensor's end where it is padded. `position` is the rank's in its mesh. Requires cuts in whole
/// blocks.
Box memory_box(const Mesh& mesh, const program::Buffer& buffer, std::size_t position);
/// What that rank holds of the tensor: the same without padding.
Box held_box(const Mesh& mesh, const program::Buffer& buffer, std::size_t position);
/// True if it is the first of those that hold the same.
bool is_owner(const Mesh& mesh, const program::Buffer& buffer, std::size_t position);

/// Calls visit(offset in a, offset in b, elements) for each run of `what` that is contiguous in the
/// dense memories of both boxes, in rising order. Both contain `what`. Offsets count elements.
using VisitRun = std::function<void(std::int64_t, std::int64_t, std::int64_t)>;
void for_runs(const Box& what, const Box& a, const Box& b, const VisitRun& visit);

/// Calls visit(box) for boxes of at most so many elements that together are all of a tensor and
/// stand one after another in its dense memory.
void for_chunks(const Shape& shape, std::int64_t most_elements,
                const std::function<void(const Box&)>& visit);

/// Copies the elements of `what` from the memory of one box to that of another.
void copy_box(const Box& what, const Box& from_box, std::span<const std::byte> from,
              const Box& to_box, std::span<std::byte> to, std::int64_t element_bytes);

}  // namespace fourfold::checkpoint
