// In which order the elements of moved tensors are stored, so that collectives see contiguous
// memory.
#pragma once

#include "compile/sharded_graph.h"
#include "plan/plan.h"

namespace fourfold::compile {

/// True where the shares of a conversion's members lie apart in memory, before it or after it: a
/// rank's tensor is then packed first, or unpacked last.
struct Blocks {
  bool before = false, after = false;
};
/// `from` and `to`: the shapes that a rank has before and after the conversion.
Blocks blocks_of(const Conversion& conversion, const Shape& from, const Shape& to,
                 const Mesh& mesh);

/// A collective gives each member one contiguous share. That holds for a plain tensor where the dim
/// that gains or loses the cut is outermost in memory and the members divide it; parameters are
/// annotated so that theirs is. Everywhere else the tensor is moved in a blocked buffer, and `pack`
/// and `unpack` steps, visible and priced, change between the two forms. A slice into padding is
/// taken from such a buffer, too.
ShardedGraph choose_blocks(ShardedGraph graph, const plan::Plan& plan);

}  // namespace fourfold::compile
