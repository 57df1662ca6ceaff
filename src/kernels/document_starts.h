// Documents within samples, for ops that stop at their borders, and where attention's operands
// stand: what the kernels of all backends have in common. B batch, T time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernel.h"

namespace fourfold::kernels {

/// The operands of attention and its gradient that come after the `first` ones, which are always
/// there.
struct AttentionOperands {
  std::size_t starts, seed, outputs;  // `step` stands after the seed
  template <class AttentionOp>
  AttentionOperands(const AttentionOp& op, std::size_t first)
      : starts(first),
        seed(first + (op.documents ? 1 : 0)),
        outputs(seed + (op.rate == 0 ? 0 : 2)) {}
};

/// The first key that token t of a sample sees is that at starts_BT[sample, t]; the sample's first
/// where there are no starts.
struct DocumentStarts {
  const std::int32_t* starts_BT = nullptr;
  std::int64_t time = 0;

  std::int64_t first_key(std::int64_t sample, std::int64_t t) const {
    return starts_BT == nullptr ? 0 : starts_BT[sample * time + t];
  }
};

/// The operands of an op that may have document_starts at `place`.
template <class Row>
DocumentStarts document_starts(const Row& op, Tensors operands, std::size_t place) {
  if (!op.documents) return {};
  return {operands[place].as<std::int32_t>(), operands[place].shape[1]};
}

}  // namespace fourfold::kernels
