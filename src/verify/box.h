// Boxes of local tensors: what a slice must be, so that it says which elements of the whole tensor
// it holds. Their arithmetic is shared with nobody who cuts tensors into boxes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "verify/claims.h"
#include "verify/language.h"

namespace fourfold::verify {

/// The elements of a local tensor whose index in each dim is one of `count` from `first` on.
struct Box {
  std::vector<std::int64_t> first, count;  // of each dim
  bool operator==(const Box&) const = default;
};

/// The box that a slice of a plain buffer covers, element by element in the order of the slice;
/// nothing where it covers no box, as rows that do not begin in one column. Requires that it lies
/// within its buffer, between elements (rule bounds). Cost: linear in the dims.
std::optional<Box> box_of(const Program& program, const Slice& slice);

/// How many elements of each dim of this rank's tile are not padding.
std::vector<std::int64_t> sizes_without_padding(Claims& claims, BufferId id);

/// True if a plain buffer has only padding in these bytes, counted from its start. Cost: linear in
/// the dims.
bool is_padding(Claims& claims, BufferId id, std::int64_t begin_bytes, std::int64_t end_bytes);

}  // namespace fourfold::verify
