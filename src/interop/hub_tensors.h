// A tensor of a model under our name and under that of Hugging Face, and how its elements lie in
// each. Not which tensors a model has: hub_family.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/shape.h"

namespace fourfold::interop {

/// One tensor of theirs. It has all of ours, or some indices of one dim, the others being in other
/// tensors of theirs; what it has, as a matrix, may lie transposed in it.
struct HubTensor {
  std::string ours;
  Shape our_shape;
  std::string theirs;
  Shape their_shape;
  /// Above 0: so many first dims of ours are the rows of a matrix, which are columns of theirs.
  std::size_t transposed_rows = 0;
  std::size_t dim = 0;                // of ours, of which theirs has
  std::int64_t first = 0, count = 0;  // these indices; count 0: all
  bool is_zero = false;               // a bias that our model has not: zeros compute the same
};

/// Their elements, taken out of all of ours.
std::vector<std::byte> taken_out(const HubTensor& tensor, std::vector<std::byte> ours,
                                 std::size_t element_bytes);
/// Puts their elements where they belong in ours.
void put_in(const HubTensor& tensor, std::vector<std::byte> theirs, std::span<std::byte> ours,
            std::size_t element_bytes);

/// (R, C) to (C, R), row-major, elements of so many bytes.
std::vector<std::byte> transposed(const std::vector<std::byte>& matrix, const Shape& shape_RC,
                                  std::size_t element_bytes);

}  // namespace fourfold::interop
