// Sizes in an op's attributes, from those of the whole tensor to those of a rank's part.
#pragma once

#include <span>

#include "op/table.h"

namespace fourfold::compile {

/// The op for local outputs of the given shapes: numbers of rows, parts and elements that no read
/// tells. They are the same on all ranks.
op::Op localize(op::Op op, std::span<const Shape> local_outputs);

}  // namespace fourfold::compile
