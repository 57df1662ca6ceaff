#include "compile/localize.h"

namespace fourfold::compile {

op::Op localize(op::Op op, std::span<const Shape> local_outputs) {
  std::visit(
      [&](auto& row) {
        using Row = std::decay_t<decltype(row)>;
        if constexpr (requires { row.shape; }) row.shape = local_outputs[0];
        if constexpr (std::is_same_v<Row, op::EmbeddingGradient>) row.rows = local_outputs[0][0];
        if constexpr (std::is_same_v<Row, op::LayerNormMoments>) row.parts = local_outputs[0][0];
      },
      op);
  return op;
}

}  // namespace fourfold::compile
