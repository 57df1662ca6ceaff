// Which columns of a vocabulary the local logits hold, as op::LogitMax ...
// op::CrossEntropyGradient state it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/on_device.h"

namespace fourfold::kernels {

struct VocabularyWindow {
  std::int64_t local;  // columns here, those of padding after the others
  std::int64_t valid;  // not padding
  std::int64_t first;  // of the vocabulary

  /// Local column of a label, or -1 where it is ignored (-1 itself) or not here.
  FOURFOLD_CUDA std::int64_t column_of(std::int32_t label) const {
    const std::int64_t column = label - first;
    return column >= 0 && column < valid ? column : -1;
  }
};

/// For logits (..., V) and the attributes first_column and columns of an op.
template <class Row>
VocabularyWindow vocabulary_window(const Row& op, std::int64_t local) {
  const std::int64_t valid =
      op.columns == 0 ? local : std::clamp<std::int64_t>(op.columns - op.first_column, 0, local);
  return {local, valid, op.first_column};
}

}  // namespace fourfold::kernels
